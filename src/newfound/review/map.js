// The map: drag to pan, zoom around the pointer; in the review, a lasso selects images.
const map = find("#map"), canvas = find("canvas", map), pen = canvas.getContext("2d"), bubble = find("#shown");
const view = {x: 0, y: 0, scale: 1}, MARGIN = 24, NEAR = 14, REACH = 180, shapes = {};
const RING = "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z";
let lasso = null, pressed = null, waiting = false;

// The position of a point on the canvas.
const spot = ([, x, y]) => [
  view.x + view.scale * (MARGIN + x * (canvas.clientWidth - 2 * MARGIN)),
  view.y + view.scale * (MARGIN + (1 - y) * (canvas.clientHeight - 2 * MARGIN)),
];

function drawMap() {
  if (!waiting) waiting = requestAnimationFrame(() => { waiting = false; paint(); });
}

function paint() {
  const {color: ink, backgroundColor: paper} = getComputedStyle(canvas), spots = data.points.map(spot);
  [canvas.width, canvas.height] = [canvas.clientWidth * devicePixelRatio, canvas.clientHeight * devicePixelRatio];
  pen.scale(devicePixelRatio, devicePixelRatio);
  data.points.forEach(([row], at) => {
    const [, place, confidence] = data.images[row], size = 3 + 3 * confidence;
    draw(data.classes[place].mark, ...spots[at], size, paper);
    if (data.live && selected.has(row)) draw([RING, ink, ink, false], ...spots[at], 2 * size, paper, 0.2);
  });
  label(spots, ink, paper);
  if (!lasso) return;
  [pen.strokeStyle, pen.lineWidth] = [ink, 1.5];
  pen.setLineDash([6, 4]);
  pen.stroke(outline());
}

// Draw a mark; the width of its lines is relative to its size.
function draw([path, light, dark, filled], x, y, size, paper, line = 0.5) {
  const shape = shapes[path] ??= new Path2D(path);
  pen.save();
  pen.translate(x, y);
  pen.scale(size, size);
  pen.fillStyle = isDark() ? dark : light;
  [pen.strokeStyle, pen.lineWidth] = filled ? [paper, 0.3] : [pen.fillStyle, line];
  if (filled) pen.fill(shape);
  pen.stroke(shape);
  pen.restore();
}

// Write the names of the classes, the largest first, each where it hides no other name and few images.
function label(spots, ink, paper) {
  const buttons = find(".tools", map), taken = [[buttons.offsetLeft, buttons.offsetTop, buttons.offsetWidth, buttons.offsetHeight]];
  const own = data.classes.map(() => []), middle = values => values.sort((a, b) => a - b)[values.length >> 1];
  data.points.forEach(([row], at) => {
    if (meet([...spots[at], 0, 0], [0, 0, canvas.clientWidth, canvas.clientHeight])) own[data.images[row][1]].push(spots[at]);
  });
  pen.font = "600 13px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const place of [...own.keys()].sort((a, b) => own[b].length - own[a].length)) {
    const {name, kind, mark} = data.classes[place], text = name.length > 24 ? name.slice(0, 23) + "…" : name;
    if (!own[place].length || kind === "unsorted") continue;
    const x = middle(own[place].map(each => each[0])), y = middle(own[place].map(each => each[1]));
    const width = pen.measureText(text).width + 24, near = spots.filter(each => Math.hypot(each[0] - x, each[1] - y) < 2 * REACH);
    const hidden = box => near.filter(each => meet(box, [each[0] - 4, each[1] - 4, 8, 8])).length;
    const away = ([u, v, w, h]) => Math.hypot(u + w / 2 - x, v + h / 2 - y);
    const best = around(x, y, width, 20).filter(box => !taken.some(other => meet(box, other)))
      .map(box => [hidden(box) + away(box) / 10, box]).sort((a, b) => a[0] - b[0])[0]?.[1];
    if (!best) continue;
    taken.push(best);
    [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [paper, ink, 0.4];
    pen.beginPath();
    pen.roundRect(...best, 5);
    pen.fill();
    pen.stroke();
    pen.fillStyle = ink;
    pen.fillText(text, best[0] + 19, best[1] + 11);
    draw(mark, best[0] + 10, best[1] + 10, 5, paper);
  }
  return taken.slice(1);
}

const meet = ([x, y, w, h], [u, v, s, t]) => x < u + s && u < x + w && y < v + t && v < y + h;

// Boxes of this size within the canvas, centred on a point and on circles around it.
function around(x, y, width, height) {
  const centres = [[x, y]];
  for (let far = 20; far <= REACH; far += 20)
    for (let angle = 0; angle < 2 * Math.PI; angle += Math.PI / 6) centres.push([x + 1.4 * far * Math.cos(angle), y + far * Math.sin(angle)]);
  return centres.map(([u, v]) => [u - width / 2, v - height / 2, width, height])
    .filter(([u, v]) => u > 2 && v > 2 && u + width < canvas.clientWidth - 2 && v + height < canvas.clientHeight - 2);
}

function outline() {
  const path = new Path2D();
  for (const [x, y] of lasso) path.lineTo(x, y);
  path.closePath();
  return path;
}

// Zoom around a point of the canvas; by 0, show the whole map. The map never leaves its frame.
function zoomMap(by, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = by ? Math.min(Math.max(view.scale * by, 1), 40) : 1, factor = scale / view.scale;
  pan(x - (x - view.x) * factor, y - (y - view.y) * factor, scale);
}

function pan(x, y, scale = view.scale) {
  const inside = (value, length) => Math.max(Math.min(value, 0), length * (1 - scale));
  Object.assign(view, {scale, x: inside(x, canvas.clientWidth), y: inside(y, canvas.clientHeight)});
  drawMap();
}

// The row of the image at a point of the canvas, if there is one.
function rowAt(x, y) {
  const far = point => Math.hypot(spot(point)[0] - x, spot(point)[1] - y);
  const near = data.points.reduce((a, b) => far(a) <= far(b) ? a : b);
  return far(near) < NEAR ? near[0] : null;
}

canvas.addEventListener("pointerdown", event => {
  canvas.setPointerCapture(event.pointerId);
  pressed = {x: event.offsetX, y: event.offsetY, moved: false};
  bubble.hidden = true;
  if (data.live && (event.shiftKey || map.classList.contains("lasso"))) lasso = [[event.offsetX, event.offsetY]];
});
canvas.addEventListener("pointermove", event => {
  const {offsetX: x, offsetY: y} = event;
  if (!pressed) return point(x, y);
  pressed.moved ||= Math.hypot(x - pressed.x, y - pressed.y) > 4;
  if (lasso) lasso.push([x, y]), drawMap();
  else if (pressed.moved) pan(view.x + event.movementX, view.y + event.movementY);
});
canvas.addEventListener("pointerup", ({offsetX: x, offsetY: y}) => {
  if (!pressed) return;
  const row = rowAt(x, y), {moved} = pressed;
  if (lasso && moved) {
    const path = outline();
    pen.resetTransform();
    select(data.points.filter(point => pen.isPointInPath(path, ...spot(point))).map(([each]) => each), true);
  } else if (!moved && row !== null) data.live ? select([row]) : enlarge(row, data.points.map(([each]) => each));
  lasso = pressed = null;
  drawMap();
});
canvas.addEventListener("pointercancel", () => { lasso = pressed = null; drawMap(); });
canvas.addEventListener("pointerleave", () => bubble.hidden = true);
canvas.addEventListener("dblclick", ({offsetX: x, offsetY: y}) => {
  if (data.live && rowAt(x, y) !== null) enlarge(rowAt(x, y), data.points.map(([each]) => each));
});
canvas.addEventListener("wheel", event => {  // only if the map has the focus, since people scroll past it
  if (!event.ctrlKey && document.activeElement !== canvas) return;
  event.preventDefault();
  zoomMap(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.offsetX, event.offsetY);
}, {passive: false});
canvas.addEventListener("keydown", event => {
  const by = {"+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0}[event.key];
  const [x, y] = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key] ?? [0, 0];
  if (by === undefined && !x && !y) return;
  event.preventDefault();
  by === undefined ? pan(view.x + x, view.y + y) : zoomMap(by);
});
for (const button of findAll("[data-zoom]", map)) button.addEventListener("click", () => zoomMap(Number(button.dataset.zoom)));
find("#lasso")?.addEventListener("click", ({target}) => target.setAttribute("aria-pressed", map.classList.toggle("lasso")));
new ResizeObserver(() => pan(view.x, view.y)).observe(canvas);

function point(x, y) {
  const row = rowAt(x, y);
  bubble.hidden = row === null;
  if (bubble.hidden) return;
  const image = find("img", bubble);
  image.onload = () => image.classList.toggle("tiny", image.naturalWidth <= 16);
  image.src = thumbnail(row);
  find("div", bubble).textContent = described(row);
  bubble.style.left = `${x < canvas.clientWidth / 2 ? x + 18 : x - 18 - bubble.offsetWidth}px`;
  bubble.style.top = `${Math.max(0, Math.min(y, canvas.clientHeight - bubble.offsetHeight))}px`;
}
