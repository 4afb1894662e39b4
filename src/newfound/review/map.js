// The map: it is panned by dragging and zoomed around the pointer; in the review, a lasso selects images.
const map = find("#map"), canvas = find("canvas", map), pen = canvas.getContext("2d"), bubble = find("#shown");
const view = {x: 0, y: 0, scale: 1}, MARGIN = 24, NEAR = 14;
let lasso = null, pressed = null, waiting = false;

// Where a point is on the canvas.
const spot = ([, x, y]) => [
  view.x + view.scale * (MARGIN + x * (canvas.clientWidth - 2 * MARGIN)),
  view.y + view.scale * (MARGIN + (1 - y) * (canvas.clientHeight - 2 * MARGIN)),
];

function drawMap() {
  if (!waiting) waiting = requestAnimationFrame(() => { waiting = false; paint(); });
}

function paint() {
  const ratio = devicePixelRatio, {color, backgroundColor} = getComputedStyle(canvas), dark = isDark();
  [canvas.width, canvas.height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
  const paths = data.classes.map(({mark}) => new Path2D(mark[0])), spots = data.points.map(spot);
  data.points.forEach(([row], at) => {
    const [, place, confidence] = data.images[row], [, light, black, filled] = data.classes[place].mark;
    const size = ratio * (3 + 3 * confidence), isSelected = data.live && selected.has(row);
    pen.setTransform(size, 0, 0, size, ratio * spots[at][0], ratio * spots[at][1]);
    pen.lineWidth = filled ? 0.3 : 0.5;
    pen.fillStyle = dark ? black : light;
    pen.strokeStyle = filled ? backgroundColor : pen.fillStyle;
    if (filled) pen.fill(paths[place]);
    pen.stroke(paths[place]);
    if (!isSelected) return;
    [pen.strokeStyle, pen.lineWidth] = [color, 0.5];
    pen.beginPath();
    pen.arc(0, 0, 1.9, 0, 7);
    pen.stroke();
  });
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  label(spots, color, backgroundColor);
  if (lasso?.length) {
    [pen.strokeStyle, pen.lineWidth] = [color, 1.5];
    pen.setLineDash([6, 4]);
    pen.stroke(outline());
    pen.setLineDash([]);
  }
}

// The names of the classes, the largest first, each where it hides no other name and few images.
function label(spots, ink, paper) {
  const own = data.classes.map(() => []), taken = [], middle = values => values.sort((a, b) => a - b)[values.length >> 1];
  data.points.forEach(([row], at) => own[data.images[row][1]].push(spots[at]));
  pen.font = "600 13px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const place of [...own.keys()].sort((a, b) => own[b].length - own[a].length)) {
    if (!own[place].length) continue;
    const {name} = data.classes[place], text = name.length > 24 ? name.slice(0, 23) + "…" : name;
    const from = [0, 1].map(axis => middle(own[place].map(each => each[axis]))), width = pen.measureText(text).width + 10;
    const best = around(from, width, 20).filter(box => !taken.some(other => meet(box, other)))
      .map(box => ({box, cost: spots.filter(([x, y]) => meet(box, [x - 4, y - 4, 8, 8])).length + Math.hypot(box[0] + width / 2 - from[0], box[1] + 10 - from[1]) / 10}))
      .sort((a, b) => a.cost - b.cost)[0]?.box;
    if (!best) continue;
    taken.push(best);
    [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [paper, ink, 1];
    pen.globalAlpha = 0.9;
    pen.beginPath();
    pen.roundRect(...best, 5);
    pen.fill();
    pen.globalAlpha = 0.4;
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    pen.fillText(text, best[0] + 5, best[1] + 11);
  }
  return taken;
}

const meet = ([x, y, w, h], [u, v, s, t]) => x < u + s && u < x + w && y < v + t && v < y + h;

// Boxes of this size on the canvas, centred on a point and on circles around it.
function around([x, y], width, height) {
  const centres = [[x, y]];
  for (let radius = 20; radius <= 180; radius += 20)
    for (let angle = 0; angle < 12; angle++) centres.push([x + 1.4 * radius * Math.cos(angle * Math.PI / 6), y + radius * Math.sin(angle * Math.PI / 6)]);
  return centres.map(([u, v]) => [u - width / 2, v - height / 2, width, height])
    .filter(([u, v]) => u > 2 && v > 2 && u + width < canvas.clientWidth - 2 && v + height < canvas.clientHeight - 2);
}

function outline() {
  const path = new Path2D();
  for (const [x, y] of lasso) path.lineTo(x, y);
  path.closePath();
  return path;
}

// Zoom around a point of the canvas, by 0 to the whole map; the map never leaves its frame.
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
canvas.addEventListener("pointerleave", () => bubble.hidden = true);
canvas.addEventListener("dblclick", ({offsetX: x, offsetY: y}) => {
  if (data.live && rowAt(x, y) !== null) enlarge(rowAt(x, y), data.points.map(([each]) => each));
});
canvas.addEventListener("wheel", event => {  // only once the map has the focus: people scroll past it
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
  image.onload = () => image.classList.toggle("tiny", image.naturalWidth <= 48);
  image.src = thumbnail(row);
  find("div", bubble).textContent = described(row);
  bubble.style.left = `${x < canvas.clientWidth / 2 ? x + 18 : x - 18 - bubble.offsetWidth}px`;
  bubble.style.top = `${Math.max(0, Math.min(y, canvas.clientHeight - bubble.offsetHeight))}px`;
}
