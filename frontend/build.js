// Bundles the report's script with cytoscape.js, and copies the styles, into the Python package.
// The first line of the result names its sources by their hash, which a test compares.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, readFile, readdir, writeFile } from "node:fs/promises";

const here = (path) => new URL(path, import.meta.url);
const script = here("../src/polydag/report/assets/report.js");
const notice = await readFile(here("node_modules/cytoscape/LICENSE"), "utf8");

const sources = ["package-lock.json", ...(await readdir(here("src"))).sort().map((name) => `src/${name}`)];
const hash = createHash("sha256");
for (const name of sources) hash.update(await readFile(here(name)));

await build({
  entryPoints: [here("src/main.js").pathname],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  banner: { js: `/* built from frontend/, ${hash.digest("hex")} */\n/* Contains cytoscape.js:\n${notice.trim().replaceAll("*/", "* /")}\n*/` },
  outfile: script.pathname,
});
// A script element ends at "</script", wherever it stands.
await writeFile(script, (await readFile(script, "utf8")).replaceAll("</script", "<\\/script"));
await copyFile(here("src/style.css"), here("../src/polydag/report/assets/report.css"));
