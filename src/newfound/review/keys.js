// The keyboard: arrows move from card to card, or from image to image; other keys act on the focused one.
// A handler that returns false has done nothing, so the browser handles the key as usual.
const keys = {
  ArrowLeft: step, ArrowRight: step, ArrowUp: step, ArrowDown: step,
  Enter: enter, " ": enter,
  Escape: leave,
  n: ({target}) => target.closest(".card")?.querySelector("input")?.focus(),
  m({target}) { if (target.closest(".card")) chooseMerge(placeOf(target)); },
  "?": () => find("#keys").showModal(),
};

function enter({target}) {
  if (target.matches(".picture")) enlargeIn(target);
  else if (target.matches(".card")) find(".picture", target)?.focus();
  else return false;
}

function leave({target}) {
  if (!target.matches(".card .picture, .card input")) return false;
  target.closest(".card").focus();
}

function step({key, shiftKey, target}) {
  const kind = [".picture", ".card"].find(each => target.matches(each));
  if (!kind) return key === "ArrowRight" && target === document.body && find(".card").focus();  // the other arrows scroll
  const all = findAll(kind).filter(each => each.checkVisibility()), at = all.indexOf(target);
  const sideways = {ArrowLeft: -1, ArrowRight: 1}[key];
  const next = sideways ? all[at + sideways] : nearest(target, all, key === "ArrowDown");
  next?.focus();
  if (next && shiftKey && data.live && kind === ".picture") select([rowOf(target), rowOf(next)], true);
}

// The nearest card or image in a row above or below.
function nearest(from, all, down) {
  const box = each => each.getBoundingClientRect(), own = box(from);
  const far = each => 2 * Math.abs(box(each).top - own.top) + Math.abs(box(each).left - own.left);
  const there = all.filter(each => down ? box(each).top > own.top + 4 : box(each).top < own.top - 4);
  return there.sort((a, b) => far(a) - far(b))[0];
}

document.addEventListener("keydown", event => {
  const {key, target} = event, letter = key.length === 1 && key !== " ";
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
  if (target.matches("input") && key !== "Escape" || letter && !find("#letters").checked) return;
  if (Object.hasOwn(keys, key) && keys[key](event) !== false) event.preventDefault();
});
// Each strip is one stop of the Tab key.
document.addEventListener("focusin", ({target}) => {
  if (target.matches(".picture")) for (const each of findAll(".picture", target.parentNode)) each.tabIndex = each === target ? 0 : -1;
});
find("#help").addEventListener("click", keys["?"]);
