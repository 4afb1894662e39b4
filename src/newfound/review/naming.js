// The commands that give classes the names typed in; classes with the same name are merged.
function commands(run, known, typed) {
  const wanted = new Map();
  for (const [own, name] of typed) {
    const target = name.trim().normalize("NFC") || own;
    wanted.set(target, [...(wanted.get(target) ?? []), own]);
  }
  const lines = [], renames = [];
  for (const [name, classes] of wanted) {
    const stays = known.includes(name) || classes.includes(name) ? name : classes[0];
    const others = classes.filter(each => each !== stays);
    if (others.length) lines.push(line("merge", run, [stays, ...others]));
    if (stays !== name) renames.push(`${stays}=${name}`);
  }
  if (renames.length) lines.push(line("rename", run, renames));
  return lines.join("\n");
}

function line(edit, run, words) {
  const separator = words.some(each => each.startsWith("-")) ? ["--"] : [];
  return ["newfound", "classes", run, edit, ...separator, ...words].map(quoted).join(" ");
}

function quoted(word) {
  return /^[\w.,\/:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
