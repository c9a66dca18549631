// Asks the site's own search worker: node site_search.js SITE_FOLDER < queries (JSON, a list).
// Prints a JSON list: for each query the addresses of the pages found, best first.
const fs = require("fs"), path = require("path"), vm = require("vm");

const site = process.argv[2];
const workers = path.join(site, "assets/javascripts/workers");
const name = fs.readdirSync(workers).find((file) => /^search\..*\.js$/.test(file));
const queries = JSON.parse(fs.readFileSync(0, "utf-8"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf-8"));

let onMessage, answer;
const worker = { console, addEventListener: (_, call) => (onMessage = call), postMessage: (m) => answer(m) };
worker.self = worker;
vm.runInNewContext(fs.readFileSync(path.join(workers, name), "utf-8"), worker);
const ask = (type, data) => new Promise((done) => { answer = done; onMessage({ data: { type, data } }); });

(async () => {
  const options = { suggest: false };
  await ask(0, { config: index.config, docs: index.docs, options });
  const found = [];
  for (const query of queries) {
    const result = await ask(2, query);
    found.push(result.data.items.map((sections) => sections[0].location.split("#")[0]));
  }
  console.log(JSON.stringify(found));
})();
