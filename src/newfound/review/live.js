// The review: images are selected, and every edit is sent to the server; then the classes are loaded again.
const selected = new Set(), message = find("#message");
let busy = false, last = null;  // `last` is the image that was clicked last

// Select or deselect images; without `on`, toggle them.
function select(rows, on) {
  for (const row of rows) on ?? !selected.has(row) ? selected.add(row) : selected.delete(row);
  showSelected();
}

function showSelected() {
  for (const each of findAll(".picture")) each.setAttribute("aria-pressed", selected.has(rowOf(each)));
  find("[data-act=select]").setAttribute("aria-pressed", selected.has(look.rows[look.at]));
  find("#selection").hidden = !selected.size;
  find("#number").textContent = `${selected.size.toLocaleString("en")} selected`;
  find("#undo").disabled = !data.edits;
  drawMap();
}
shown.push(showSelected);

// Edits

function tell(text, isDone = false) {
  message.textContent = text;
  message.classList.toggle("done", isDone);
}

async function edit(change, done, clear = () => {}) {
  if (busy) return;
  busy = true;
  tell("Saving…", true);
  const answer = await fetch("edit", {method: "POST", body: JSON.stringify({...change, seen: data.seen})}).catch(() => null);
  if (answer?.ok) {
    clear();
    await renew();
    tell(done, true);
  } else tell(answer ? await answer.text() : "No answer. Is newfound review still running?");
  busy = false;
}

// Load the classes again. Names that were typed, lists that were opened and the focus stay.
async function renew() {
  const kept = findAll(".card").map(card => [idOf(card), find("input", card)?.value, find("details", card)?.open]);
  const back = focused();
  const fresh = new DOMParser().parseFromString(await (await fetch("")).text(), "text/html");
  find("#now").replaceWith(find("#now", fresh));
  document.title = fresh.title;
  show();
  for (const [id, typed, isOpen] of kept) {
    const card = cardOf(id) ?? document.createElement("p"), field = find("input", card), list = find("details", card);
    if (field) field.value = typed;
    if (list) list.open = isOpen;
  }
  back();
}
const idOf = card => data.classes[placeOf(card)].id;
const cardOf = id => findAll(".card").find(each => idOf(each) === id);

// A function that restores the focus: on the same card, or on the image or card in its place.
function focused() {
  const kind = [".picture", ".card"].find(each => document.activeElement.closest(`#now ${each}`));
  if (!kind) return () => {};
  const own = document.activeElement.closest(kind), at = findAll(kind).indexOf(own), id = kind === ".card" ? idOf(own) : null;
  return () => (cardOf(id) ?? findAll(kind)[at] ?? findAll(kind).at(-1))?.focus({preventScroll: true});
}

const nameAt = place => data.classes[place].name;
const merge = (place, into) => edit({verb: "merge", into: nameAt(into), others: [nameAt(place)]}, `Merged ${nameAt(place)} into ${nameAt(into)}.`);
const move = (rows, into) => edit({verb: "move", into: nameAt(into), rows}, `Moved to ${nameAt(into)}.`, () => selected.clear());
const withSelected = row => selected.has(row) ? [...selected] : [row];
const undo = () => edit({verb: "undo"}, "Undone.");

function rename(field) {
  const own = nameAt(placeOf(field)), name = field.value.trim().normalize("NFC"), clear = () => field.value = "";
  const same = data.classes.find(each => each.name.normalize("NFC") === name)?.name;
  if (!name || same === own) return;
  if (same) edit({verb: "merge", into: same, others: [own]}, `Merged ${own} into ${same}.`, clear);
  else edit({verb: "rename", names: {[own]: name}}, `Named ${name}.`, clear);
}

function chooseMove() {
  const title = `Move ${selected.size.toLocaleString("en")} selected to`;
  if (selected.size) choose(title, null, into => move([...selected], into));
}

// All images of a class, the least confident first.
async function imagesOf(place) {
  const answer = await fetch(`class/${data.classes[place].id}`).catch(() => null);
  if (!answer?.ok) return tell("Cannot load the images. Reload the page.") ?? [];
  const images = await answer.json();
  for (const [row, file, confidence] of images) data.images[row] = [file, place, confidence];
  return images.map(([row]) => row);
}

// Select all images of a class, or none if all are selected.
async function selectAll(place) {
  const rows = await imagesOf(place);
  select(rows, !rows.every(row => selected.has(row)));
}

// Mouse and keys

Object.assign(acts, {
  split: button => edit({verb: "split", name: nameAt(placeOf(button))}, `Split ${nameAt(placeOf(button))}.`),
  all: button => selectAll(placeOf(button)),
  accept: () => edit({verb: "accept"}, "Accepted."),
  undo, move: chooseMove,
  look: () => enlarge([...selected][0], [...selected]),
  clear: () => select([...selected], false),
});
document.addEventListener("click", ({target, shiftKey}) => {
  const picture = target.closest(".picture");
  if (!picture) return;
  const strip = findAll(".picture", picture.closest(".strip")), from = strip.indexOf(last), to = strip.indexOf(picture);
  if (shiftKey && from >= 0) select(strip.slice(Math.min(from, to), Math.max(from, to) + 1).map(rowOf), true);
  else select([rowOf(picture)]);
  last = picture;
});
document.addEventListener("keydown", ({target, key, isComposing}) => {
  if (key === "Enter" && !isComposing && target.matches(".card input")) rename(target);
});
document.addEventListener("toggle", async ({target}) => {
  const strip = target.matches("details[open]") && find(".strip", target);
  if (!strip || strip.children.length) return;
  fill(strip, await imagesOf(placeOf(strip)));
  showSelected();
}, true);
Object.assign(keys, {
  u: undo, v: chooseMove,
  " "({target}) {
    if (target.matches(".picture")) select([rowOf(target)]);
    else if (target.matches(".card")) selectAll(placeOf(target));
    else return false;
  },
  Escape: event => leave(event) === false && acts.clear(),
});
