// What the report and the review share: pictures, choosing a class, dragging, light and dark.
// Both define `merge(place, into)`; the review also defines `move(rows, into)` and `select(rows, on)`.
const find = (what, where = document) => where.querySelector(what);
const findAll = (what, where = document) => [...where.querySelectorAll(what)];
const shown = [];  // Functions to call whenever the classes are shown, and again after an edit.
let data;          // See page.py. A class is addressed by its place in data.classes, an image by its row.

function show() {
  data = JSON.parse(find("#data").textContent);
  for (const strip of findAll(".strip[data-rows]")) fill(strip, strip.dataset.rows.split(" ").filter(Boolean).map(Number));
  for (const mark of findAll("#now .mark")) mark.innerHTML = drawing(data.classes[mark.dataset.place].mark);
  for (const each of shown) each();
}

function make(tag, facts, ...children) {
  const made = Object.assign(document.createElement(tag), facts);
  made.append(...children);
  return made;
}

const drawing = ([path, light, dark, filled]) =>
  `<svg viewBox="-1.3 -1.3 2.6 2.6" aria-hidden="true" style="--light: ${light}; --dark: ${dark}"><path d="${path}" class="${filled ? "filled" : ""}"/></svg>`;

// Pictures

const rowOf = picture => Number(picture.dataset.row);
const placeOf = element => Number(element.closest(".card").dataset.place);
const thumbnail = row => data.pictures?.[row] ?? `thumbnail/${row}`;

function described(row) {
  const [file, place, confidence] = data.images[row];
  return `${data.classes[place].name}, ${Math.round(100 * confidence)}%: ${file}`;
}

function fill(strip, rows) {
  strip.replaceChildren(...rows.map((row, at) => {
    const image = make("img", {loading: "lazy", draggable: false, alt: data.images[row][0].split(/[\\/]/).at(-1)});
    image.onload = () => image.classList.toggle("tiny", image.naturalWidth <= 16);
    image.src = thumbnail(row);
    // Not a <button>, since Firefox does not drag those.
    const picture = make("div", {className: "picture", role: "button", title: described(row), tabIndex: at ? -1 : 0, draggable: data.live}, image);
    picture.dataset.row = row;
    return picture;
  }));
}

// Choosing a class

const chooser = find("#choose"), filter = find("input", chooser);
const choices = () => findAll("li:not([hidden]) button", chooser);

function choose(title, except, act) {
  find("h2", chooser).textContent = title;
  filter.value = "";
  find("ul", chooser).replaceChildren(...data.classes.flatMap(({name, size, mark}, place) => place === except ? [] : [make("li", {},
    make("button", {onclick: () => { chooser.close(); act(place); }},
      make("span", {className: "mark", innerHTML: drawing(mark)}), `${name} (${size.toLocaleString("en")})`))]));
  chooser.showModal();
}

filter.addEventListener("input", () => {
  const text = filter.value.trim().toLowerCase();
  for (const item of findAll("li", chooser)) item.hidden = !item.textContent.toLowerCase().includes(text);
});
chooser.addEventListener("keydown", event => {
  const by = {ArrowDown: 1, ArrowUp: -1}[event.key], stops = [filter, ...choices()];
  if (by) stops[(stops.indexOf(event.target) + by + stops.length) % stops.length].focus();
  else if (event.key === "Enter" && event.target === filter) choices()[0]?.click();
  else return;
  event.preventDefault();
});

function chooseMerge(place) {
  if (data.classes[place].kind === "novel") choose(`Merge ${data.classes[place].name} into`, place, into => merge(place, into));
}

// Clicks on buttons, and images or classes dragged onto a card

const acts = {
  merge: button => chooseMerge(placeOf(button)),
  close: button => button.closest("dialog").close(),
};
document.addEventListener("click", ({target}) => acts[target.dataset.act]?.(target));

let dragged = null;  // {rows} of images, or {place} of a class
function markTarget(card) {
  for (const each of findAll(".card.target")) each.classList.remove("target");
  card?.classList.add("target");
}
document.addEventListener("dragstart", ({target, dataTransfer}) => {
  if (target.matches?.(".picture")) dragged = {rows: withSelected(rowOf(target))};
  else if (target.matches?.(".card header")) dragged = {place: placeOf(target)};
  else return;
  dataTransfer.setData("text/plain", "");
  dataTransfer.effectAllowed = "move";
});
document.addEventListener("dragover", event => {
  const card = dragged && event.target.closest?.(".card");
  if (card) event.preventDefault();
  markTarget(card);
});
document.addEventListener("drop", event => {
  const card = dragged && event.target.closest?.(".card");
  if (!card) return;
  event.preventDefault();
  if (dragged.rows) move(dragged.rows, placeOf(card));
  else if (dragged.place !== placeOf(card)) merge(dragged.place, placeOf(card));
});
document.addEventListener("dragend", () => { dragged = null; markTarget(null); });

// Light and dark

const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
let memory = {};
try { memory = localStorage; } catch { /* forbidden: the choice is not kept */ }
const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
function showTheme() {
  find("#theme").setAttribute("aria-pressed", isDark());
  drawMap();
}
find("#theme").addEventListener("click", () => {
  memory.theme = root.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
if (memory.theme) root.dataset.theme = memory.theme;
system.addEventListener("change", showTheme);
shown.push(showTheme);
