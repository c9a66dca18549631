// The form of each action, and the requests. No text of a module is ever read as HTML.
import { parts, rowsOf, tableOf, tabled, tsv } from "./files.js";
import { element, legend, show } from "./results.js";

const get = (id) => document.getElementById(id);
let module; // what the server says of it
let chosen; // the action of the form
let running = null; // the AbortController of what is being computed

async function asked(address, request = {}) {
  const response = await fetch(address, request).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server does not answer; was it stopped?");
  });
  if (response.ok) return response;
  const text = await response.text();
  let said;
  try {
    said = JSON.parse(text).error;
  } catch {
    said = undefined;
  }
  throw new Error(said ?? `The server answered with status ${response.status}: ${text.slice(0, 200)}`);
}

const answered = async (address, request) => (await asked(address, request)).json();

// The last prediction of a stream of lines; what comes before it is shown as it comes.
async function streamed(address, request, shown) {
  const response = await asked(address, request);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The server ended before the text did.");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const found of lines.map((line) => JSON.parse(line))) {
      if (found.error) throw new Error(found.error);
      if (found.predictions) return found;
      text += found.text;
      shown(text);
    }
  }
}

// What goes on, or an error: one line each. Screen readers don't count the seconds.
function say(text, seconds = null) {
  if (get("status").firstChild?.data !== text) get("status").replaceChildren(text, element("span", { ariaHidden: "true" }));
  get("status").lastChild.textContent = seconds === null ? "" : ` ${seconds} s`;
  get("status").hidden = !text;
  get("status").classList.toggle("busy", seconds !== null);
}

function complain(error) {
  get("error").textContent = error ? error.message.replace(/\s+/g, " ") : "";
  get("error").hidden = !error;
}

function clear() {
  get("results").replaceChildren();
  for (const id of ["tools", "json"]) get(id).hidden = true;
  complain(null);
  say("");
}

function button(textContent, pressed) {
  const made = element("button", { type: "button", textContent });
  made.addEventListener("click", pressed);
  return made;
}

// A button that copies a text; where a browser refuses, the text stands in the status.
function copier(name, textOf) {
  const made = button(name, async () => {
    const text = textOf();
    try {
      await navigator.clipboard.writeText(text);
      made.textContent = "Copied";
      setTimeout(() => { made.textContent = name; }, 1500);
    } catch {
      say(`The browser does not let the page copy: ${text}`);
    }
  });
  return made;
}

function input(field) {
  const many = field.kind === "text" || field.kind === "lines" || field.kind === "list";
  const made = element(many ? "textarea" : "input", { id: `field-${field.name}`, value: field.example, dir: "auto" });
  if (many) made.rows = field.kind === "list" ? 6 : 4;
  if (field.kind === "number") Object.assign(made, { type: "number", min: 0, step: 1 });
  return [element("label", { htmlFor: made.id, textContent: field.label }), made];
}

function setting(option) {
  const made = element("input", { id: `option-${option.name}` });
  const label = element("label", { htmlFor: made.id, textContent: `${option.label} ` });
  if (typeof option.default === "boolean") {
    Object.assign(made, { type: "checkbox", checked: option.default });
  } else {
    Object.assign(made, { type: "number", min: option.low, max: option.high, step: "any", value: option.default });
  }
  label.append(made);
  return label;
}

// A value as the text of its input.
function fill(row) {
  for (const field of chosen.fields) {
    const text = [row[field.name]].flat().join("\n");
    get(`field-${field.name}`).value = field.kind === "lines" ? text.replace(/\s+/g, " ") : text;
  }
}

function examples(action) {
  if (!action.examples.length) return [];
  const made = action.examples.map((row) => {
    const [text] = Object.values(row).flat().map(String), one = button(text.slice(0, 60), () => { clear(); fill(row); });
    return Object.assign(one, { title: text.slice(0, 400), dir: "auto" });
  });
  return [element("div", { className: "row examples" }, ["From the dev set:", ...made])];
}

function upload(action) {
  const file = element("input", { type: "file", id: "file", accept: ".txt,.csv,.tsv,.jsonl" });
  const columns = action.fields.map((field) => field.name).join(", ");
  const title = `.txt (a text a line), .csv, .tsv or .jsonl with ${columns}; at most ${module.limits.max_bytes.toLocaleString("en")} bytes`;
  file.addEventListener("change", () => {
    const [given] = file.files;
    file.value = ""; // the same file may be given again
    if (given) predictFile(given);
  });
  return element("label", { className: "file", title }, ["Upload a file", file]);
}

function choose(action) {
  running?.abort();
  running = null;
  chosen = action;
  for (const tab of get("actions").children) {
    tab.setAttribute("aria-pressed", String(tab.dataset.name === action.name));
  }
  const settings = element("div", { className: "options" }, action.options.map(setting));
  const run = element("button", { id: "run", type: "submit", textContent: action.button });
  const stop = Object.assign(button("Stop", () => running?.abort()), { id: "stop", hidden: true });
  get("form").replaceChildren(
    element("p", { textContent: action.help }), ...examples(action), ...action.fields.flatMap(input), settings,
    element("div", { className: "row" }, [run, stop, upload(action), copier("Copy link", link)]),
  );
  if (action.examples.length) fill(action.examples[0]);
  clear();
}

// The address of the page with the form's texts: in the fragment, which no server gets.
function link() {
  const pairs = [["action", chosen.name]];
  for (const made of get("form").querySelectorAll("[id^=field-], [id^=option-]")) {
    pairs.push([made.id, made.type === "checkbox" ? Number(made.checked) : made.value]);
  }
  history.replaceState(null, "", `#${new URLSearchParams(pairs)}`);
  return location.href;
}

// Fills the form as a link says; it computes nothing.
function follow() {
  const said = new URLSearchParams(location.hash.slice(1)), name = said.get("action");
  if (name === null) return;
  const action = module.actions.find((one) => one.name === name);
  if (!action) return complain(new Error(`The link is for the action ${name.slice(0, 60)}, which this module does not have.`));
  choose(action);
  for (const made of get("form").querySelectorAll("[id^=field-], [id^=option-]")) {
    const value = said.get(made.id);
    if (value === null) continue;
    if (made.type === "checkbox") made.checked = value === "1";
    else made.value = value;
  }
}

const lines = (text) => text.split("\n").filter((line) => line.trim());

function instances() {
  const values = Object.fromEntries(chosen.fields.map((field) => {
    const text = get(`field-${field.name}`).value;
    if (field.kind === "number") return [field.name, text === "" ? null : Number(text)];
    return [field.name, field.kind === "list" || field.kind === "lines" ? lines(text) : text];
  }));
  const [first] = chosen.fields;
  if (first.kind !== "lines") return [values];
  return values[first.name].map((text) => ({ [first.name]: text }));
}

function options() {
  if (!chosen.options.length) return undefined; // JSON leaves it out
  return Object.fromEntries(chosen.options.map((option) => {
    const made = get(`option-${option.name}`);
    if (made.type === "checkbox") return [option.name, made.checked];
    return [option.name, made.value === "" ? null : Number(made.value)];
  }));
}

function curl(address, body) {
  const quoted = body.replaceAll("'", "'\\''");
  return `curl ${address} -H 'Content-Type: application/json' \\\n  -d '${quoted}'`;
}

function requestOf(rows, settings, signal) {
  const body = JSON.stringify({ instances: rows, options: settings });
  return { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
}

// Runs what computes and tells how far it is. Nothing of an earlier one stays.
async function computing(work) {
  const mine = new AbortController(), began = Date.now(), run = get("run"), stop = get("stop");
  let done = "";
  const tick = () => say(`Computing${done} …`, Math.round((Date.now() - began) / 1000));
  running?.abort();
  running = mine;
  clear();
  run.disabled = true;
  stop.hidden = false;
  tick();
  const ticking = setInterval(tick, 1000);
  try {
    await work(mine.signal, (text) => { done = `, ${text}`; tick(); });
    if (running === mine) say("");
  } catch (error) {
    if (running !== mine) return; // another action was chosen meanwhile
    if (error.name === "AbortError") return say("Stopped.");
    clear();
    complain(error);
  } finally {
    clearInterval(ticking);
    if (running === mine) {
      run.disabled = false;
      stop.hidden = true;
      running = null;
    }
  }
}

function finish(action, rows, predictions) {
  const table = tableOf(action, rows, predictions);
  get("tools").replaceChildren(copier("Copy results", () => tsv(table)));
  get("tools").hidden = false;
}

function submit(event) {
  event.preventDefault();
  const action = chosen, rows = instances(), settings = options();
  computing(async (signal) => {
    if (!rows.length) throw new Error("There is no text; write some.");
    const address = `${location.origin}/api/${action.name}`, request = requestOf(rows, settings, signal);
    const soFar = (text) => get("results").replaceChildren(show(action, rows[0], { text }));
    const found = action.stream && rows.length === 1 ? await streamed(`${address}/stream`, request, soFar) : await answered(address, request);
    if (signal.aborted) return;
    const colours = legend(action, found.predictions);
    get("results").replaceChildren(...(colours ? [colours] : []), ...found.predictions.map((row, i) => show(action, rows[i], row)));
    finish(action, rows, found.predictions);
    get("request").textContent = curl(address, request.body);
    get("response").textContent = JSON.stringify(found, null, 1);
    get("json").hidden = false;
  });
}

function predictFile(file) {
  const action = chosen, settings = options();
  computing(async (signal, told) => {
    const rows = await rowsOf(file, action, module.limits.max_bytes), predictions = [];
    for (const part of parts(rows, module.limits)) {
      told(`${predictions.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`);
      const found = await answered(`${location.origin}/api/${action.name}`, requestOf(part, settings, signal)).catch((error) => {
        const [place, number] = error.message.match(/^instance (\d+)/) ?? [];
        if (place === undefined) throw error;
        const row = predictions.length + Number(number) + 1;
        throw new Error(`${file.name}, row ${row}${error.message.slice(place.length)}`);
      });
      if (signal.aborted) return;
      predictions.push(...found.predictions);
    }
    get("results").replaceChildren(...tabled(action, rows, predictions, file.name));
    finish(action, rows, predictions);
  });
}

async function start() {
  module = await answered("/api/module");
  get("name").textContent = module.name;
  document.title = `${module.name}: tfnlp playground`;
  get("summary").textContent = module.card.summary ?? "";
  get("notes").replaceChildren(...module.notes.map((textContent) => element("li", { textContent })));
  get("actions").replaceChildren(...module.actions.map((action) => {
    const tab = button(action.title, () => choose(action));
    tab.dataset.name = action.name;
    return tab;
  }));
  get("form").addEventListener("submit", submit);
  get("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !get("run").disabled) get("form").requestSubmit();
  });
  window.addEventListener("hashchange", follow);
  choose(module.actions[0]);
  follow();
}

start().catch(complain);
