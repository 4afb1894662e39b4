// The report: names that are typed in become commands.
const fields = findAll(".card input");
const nameOf = field => data.classes[placeOf(field)].name;

function write() {
  const known = data.classes.filter(each => each.kind !== "novel").map(each => each.name);
  const typed = fields.map(each => [nameOf(each), each.validity.valid ? each.value : ""]);
  find("#commands").textContent = commands(data.run, known, typed) || "(no names yet)";
}
for (const each of fields) each.addEventListener("input", write);
shown.push(write);

function merge(place, into) {
  const target = find(`.card[data-place="${into}"] input`);
  find(`.card[data-place="${place}"] input`).value = target?.value || data.classes[into].name;
  write();
}
