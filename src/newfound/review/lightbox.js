// The lightbox: one image in full; the arrows lead to the others of its strip.
const lightbox = find("#lightbox"), large = find("img", lightbox);
const look = {rows: [], at: 0, x: 0, y: 0, scale: 1};

function enlarge(row, rows) {
  Object.assign(look, {rows, at: rows.indexOf(row)});
  turn(0);
  lightbox.showModal();
}
const enlargeIn = picture => enlarge(rowOf(picture), findAll(".picture", picture.closest(".strip")).map(rowOf));

function turn(by) {
  look.at = (look.at + by + look.rows.length) % look.rows.length;
  const row = look.rows[look.at], file = data.images[row][0], better = new Image();
  large.onload = () => large.classList.toggle("tiny", large.naturalWidth <= 64);
  large.src = thumbnail(row);
  large.alt = described(row);
  better.onload = () => { if (look.rows[look.at] === row) large.src = better.src; };
  if (data.live) better.src = `image/${row}`;
  else if (location.protocol === "file:" && file.startsWith("/"))  // a report that is opened on the computer with the images
    better.src = "file://" + encodeURI(file).replace(/[?#]/g, encodeURIComponent);
  find("p", lightbox).textContent = `${described(row)} (${look.at + 1} of ${look.rows.length})`;
  zoom(0);
  if (data.live) showSelected();
}

function zoom(by) {
  look.scale = by ? Math.min(Math.max(look.scale * by, 1), 20) : 1;
  if (look.scale === 1) look.x = look.y = 0;
  large.style.transform = `translate(${look.x}px, ${look.y}px) scale(${look.scale})`;
}

Object.assign(acts, {
  previous: () => turn(-1), next: () => turn(1), in: () => zoom(1.5), out: () => zoom(1 / 1.5), fit: () => zoom(0),
  select: () => data.live && select([look.rows[look.at]]),
});
const inLightbox = {ArrowLeft: "previous", ArrowRight: "next", "+": "in", "=": "in", "-": "out", 0: "fit", " ": "select"};
lightbox.addEventListener("keydown", event => {
  const act = inLightbox[event.key];
  if (!act || act === "select" && event.target.matches("button")) return;
  event.preventDefault();
  acts[act]();
});
lightbox.addEventListener("wheel", event => {
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
}, {passive: false});
large.addEventListener("pointerdown", event => large.setPointerCapture(event.pointerId));
large.addEventListener("pointermove", event => {
  if (!event.buttons || look.scale === 1) return;
  look.x += event.movementX;
  look.y += event.movementY;
  zoom(1);
});
large.addEventListener("dblclick", () => zoom(look.scale === 1 ? 3 : 0));
lightbox.addEventListener("close", () => find(`.picture[data-row="${look.rows[look.at]}"]`)?.focus());
for (const kind of ["click", "dblclick"]) document.addEventListener(kind, ({target}) => {
  if (target.matches(".picture, .picture *") && (kind === "dblclick") === data.live) enlargeIn(target.closest(".picture"));
});
