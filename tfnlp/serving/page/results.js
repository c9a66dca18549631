// What each action found, as elements. Texts are set as text, never as HTML.

export function element(name, properties = {}, children = []) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const FIRST = 10; // bars that are shown at once
const paragraph = (text, className = "") => element("p", { textContent: text, className, dir: "auto" });
const strong = (text) => element("p", { dir: "auto" }, [element("strong", { textContent: text })]);
const isolated = (text) => element("bdi", { textContent: text });
export const rounded = (x) => (x === null || x === undefined ? "?" : Number(x).toFixed(3));

// Bars of shares by name under a caption, which says what they are.
function bars(caption, pairs) {
  const cells = ([name, share]) => {
    const fill = element("span");
    fill.style.width = `${100 * Math.max(0, Math.min(1, share ?? 0))}%`;
    return [
      element("span", { textContent: name, dir: "auto" }),
      element("span", { className: "bar" }, [fill]),
      element("span", { className: "number", textContent: rounded(share) }),
    ];
  };
  const grid = (some) => element("div", { className: "scores" }, some.flatMap(cells));
  const shown = grid(pairs.slice(0, FIRST)), rest = pairs.slice(FIRST);
  shown.prepend(element("span", { className: "given", textContent: caption }));
  if (!rest.length) return shown;
  const more = element("details", {}, [element("summary", { textContent: `${rest.length} more` }), grid(rest)]);
  return element("div", {}, [shown, more]);
}

const descending = (shares) => Object.entries(shares).sort((one, other) => other[1] - one[1]);
const given = (row) => Object.values(row).flat().map((text) => paragraph(String(text), "given"));

function classified(row, found) {
  return [...given(row), strong(found.label), bars("Probability", descending(found.probabilities))];
}

function labelled(row, found) {
  const text = found.labels.length ? found.labels.join(", ") : "no label";
  return [...given(row), strong(text), bars("Probability of each label", descending(found.probabilities))];
}

function compared(row, found) {
  return [...given(row), strong(`score ${rounded(found.score)}`)];
}

function scored(row, found) {
  const items = Object.entries(found.scores).map(([name, score]) => element("li", { dir: "auto" }, [isolated(name), ` ${rounded(score)}`]));
  return [...given(row), element("ul", {}, items)];
}

function picked(row, found) {
  const pairs = row.choices.map((text, i) => [text, found.probabilities[i]]);
  return [paragraph(row.text, "given"), strong(found.text), bars("Probability", pairs)];
}

function answered(row, found) {
  const letters = Array.from(row.context); // places count characters, not UTF-16 units
  const context = element("p", { dir: "auto" });
  if (found.start === null) {
    context.textContent = row.context;
  } else {
    const part = (from, to) => letters.slice(from, to).join("");
    const mark = element("mark", { textContent: part(found.start, found.end) });
    context.append(part(0, found.start), mark, part(found.end));
  }
  const others = found.answers.map((one) => element("li", { dir: "auto" }, [isolated(one.text), ` (${rounded(one.score)})`]));
  const text = found.start === null ? "The text has no answer." : found.answer;
  return [paragraph(row.question, "given"), strong(text), context, element("ol", {}, others)];
}

// The kinds that tags name, in the order of a module's labels; each has a hue.
const kindsOf = (labels) => [...new Set(labels.map((label) => label.replace(/^[BIESLU]-/, "")))].filter((kind) => kind !== "O");
const hue = (number) => (number * 137.5 + 210) % 360;

function box(inner, name, number) {
  const made = element("span", { className: "tag" }, [...inner, element("small", {}, [isolated(name)])]);
  made.style.setProperty("--hue", hue(number));
  return made;
}

function tagged(row, found, action) {
  const letters = Array.from(row.text); // places count characters, not UTF-16 units
  const part = (start, end) => letters.slice(start, end).join("");
  const line = element("p", { className: "tagged", dir: "auto" }), kinds = kindsOf(action.labels);
  let before = 0;
  for (const [start, end, kind] of found.spans) {
    const inside = found.probabilities.filter((_, i) => found.starts[i] >= start && found.ends[i] <= end);
    const made = box([isolated(part(start, end))], kind, Math.max(0, kinds.indexOf(kind)));
    made.title = `probability ${rounded(Math.min(...inside))}`;
    line.append(part(before, start), made);
    before = end;
  }
  line.append(part(before));
  return [line];
}

// What the colours of tags stand for, those that were found first; null without tags.
export function legend(action, predictions) {
  const kinds = kindsOf(action.labels);
  if (!kinds.length || !predictions[0]?.spans) return null;
  const counts = kinds.map((kind) => predictions.flatMap((found) => found.spans).filter((span) => span[2] === kind).length);
  const items = kinds.map((kind, number) => {
    const sample = element("span", { className: "tag" }, [isolated(kind)]);
    sample.style.setProperty("--hue", hue(number));
    return element("li", { className: counts[number] ? "" : "none" }, [sample, ` ${counts[number]}`]);
  });
  const order = [...items.keys()].sort((one, other) => counts[other] - counts[one]);
  return element("ul", { className: "legend", ariaLabel: "Tags, with how often they were found" }, order.map((i) => items[i]));
}

// Mentions with the number of their cluster; where they nest, the inner one.
function clustered(row, found) {
  const letters = Array.from(row.text); // places count characters, not UTF-16 units
  const mentions = found.clusters.flatMap((places, number) => places.map(([start, end]) => ({ start, end, number })));
  mentions.sort((one, other) => (other.end - other.start) - (one.end - one.start));
  const owner = letters.map(() => null);
  for (const mention of mentions) owner.fill(mention, mention.start, mention.end);
  const line = element("p", { className: "tagged", dir: "auto" });
  for (let start = 0, end = 0; start < letters.length; start = end) {
    while (end < letters.length && owner[end] === owner[start]) end += 1;
    const text = letters.slice(start, end).join("");
    if (owner[start] === null) line.append(text);
    else line.append(box([isolated(text)], owner[start].number + 1, owner[start].number));
  }
  return [line];
}

const word = (token) => token.trim().replace(/^##/, ""); // of a piece that goes on a word

function filled(row, found) {
  const line = element("p", { dir: "auto" }), parts = row.text.split(/\[MASK\]|<mask>/);
  let place = 0;
  found.masks.forEach((tokens, i) => {
    const best = word(tokens[0].token), start = found.text.indexOf(best, place + parts[i].trimEnd().length);
    if (start < 0) return;
    line.append(found.text.slice(place, start), element("mark", { textContent: best }));
    place = start + best.length;
  });
  line.append(found.text.slice(place));
  const masks = found.masks.map((tokens, i) => bars(
    found.masks.length > 1 ? `Probability, mask ${i + 1}` : "Probability",
    tokens.map((one) => [(one.token.startsWith("##") ? "…" : "") + word(one.token), one.probability]),
  ));
  return [paragraph(row.text, "given"), line, ...masks];
}

function written(row, found) {
  const line = element("p", { dir: "auto" }, [element("span", { className: "given", textContent: row.prompt })]);
  const after = found.text.startsWith(row.prompt) ? found.text.slice(row.prompt.length) : ` ${found.continuation ?? found.text}`;
  line.append(after);
  return [line];
}

function attention(found) {
  const head = (text, title = text) => element("th", { title }, [isolated(text)]);
  const top = element("tr", {}, [element("td"), ...found.source_tokens.map((token) => head(token))]);
  const rows = found.target_tokens.map((token, t) => {
    const cells = found.source_tokens.map((source, s) => {
      const weight = Math.min(1, found.attention[t][s] ?? 0), text = weight < 0.005 ? "" : weight.toFixed(2).replace(/^0/, "");
      const made = element("td", { textContent: text, title: `${token} ← ${source}: ${rounded(weight)}` });
      made.style.setProperty("--weight", weight);
      return made;
    });
    return element("tr", {}, [head(token), ...cells]);
  });
  const caption = element("caption", {}, [
    "Attention of each word of the translation (rows) to each word of the sentence (columns): 0",
    element("span", { className: "scale" }), "1",
  ]);
  const table = element("table", { className: "attention" }, [
    caption, element("thead", {}, [top]), element("tbody", {}, rows),
  ]);
  return element("div", { className: "wide", tabIndex: 0 }, [table]);
}

function translated(row, found) {
  const parts = [paragraph(row.text, "given"), strong(found.translation)];
  return found.attention ? [...parts, attention(found)] : parts;
}

function near(row, found) {
  const caption = row.word === undefined ? "Nearest texts, by cosine" : "Nearest words, by cosine";
  return [paragraph(row.query ?? row.word, "given"), bars(caption, found.neighbours.map((one) => [one.text, one.score]))];
}

const HOW = {
  classify: classified, labels: labelled, similarity: compared, scores: scored, choose: picked,
  answer: answered, tag: tagged, roles: tagged, coref: clustered, fill: filled, write: written, translate: translated,
  neighbours: near, words: near, search: near,
};

// The result of one row of a request.
export function show(action, row, found) {
  const raw = () => [element("pre", { textContent: JSON.stringify(found, null, 1), dir: "auto" })];
  return element("article", {}, (HOW[action.name] ?? raw)(row, found, action));
}

const slice = (text, [start, end]) => Array.from(text).slice(start, end).join("");
const SHORT = {
  classify: (row, found) => ({ label: found.label, probability: found.probabilities[found.label] }),
  labels: (row, found) => ({ labels: found.labels.join(", ") }),
  similarity: (row, found) => ({ score: found.score }),
  scores: (row, found) => found.scores,
  choose: (row, found) => ({ choice: found.text, probability: found.probabilities[found.choice] }),
  answer: (row, found) => ({ answer: found.answer, score: found.score }),
  tag: (row, found) => ({ tags: found.spans.map((span) => `${slice(row.text, span)} [${span[2]}]`).join("; ") }),
  coref: (row, found) => ({ mentions: found.clusters.map((some) => some.map((place) => slice(row.text, place)).join(" = ")).join("; ") }),
  fill: (row, found) => ({ filled: found.text }),
  write: (row, found) => ({ continuation: found.continuation }),
  translate: (row, found) => ({ translation: found.translation }),
  neighbours: (row, found) => ({ nearest: found.neighbours[0]?.text, score: found.neighbours[0]?.score }),
};
Object.assign(SHORT, { roles: SHORT.tag, words: SHORT.neighbours, search: SHORT.neighbours });

// A row and what was found for it as the cells of a table, strings and numbers by column.
export function cells(action, row, found) {
  const plain = ([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : value];
  const short = SHORT[action.name]?.(row, found) ?? found;
  return Object.fromEntries([...Object.entries(row), ...Object.entries(short)].map(plain));
}
