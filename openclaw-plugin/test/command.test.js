// Where the files lie that commands name.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";

import { placesIn } from "../src/command.js";

const root = realpathSync(mkdtempSync(join(tmpdir(), "command-")));
const start = join(root, "ws");
for (const folder of ["ws/sub/deep", "ws/with space", "ws/other", "far/inner"]) mkdirSync(join(root, folder), { recursive: true });
symlinkSync(join(root, "far/inner"), join(start, "link"));
writeFileSync(join(start, "file"), "");

/**
 * Whether a command names `a.txt` of these folders, and of no others.
 * @param {string} command
 * @param {string[]} folders relative to where it begins
 */
function names(command, ...folders) {
  const found = placesIn(command, start).filter((place) => place.endsWith("/a.txt"));
  assert.deepEqual(found.sort(), folders.map((folder) => resolve(start, folder, "a.txt")).sort(), command);
}

test("a command is followed into a folder that it names plainly", () => {
  names("echo x > a.txt", ".");
  names("cd sub && echo x > a.txt", "sub");
  names("  cd sub; echo x >a.txt", "sub");
  names("cd sub\necho x > a.txt\n", "sub");
  names("cd sub && cd deep && echo x > a.txt", "sub/deep");
  names("cd sub && cd .. && echo x > a.txt", ".");
  names("cd 'with space' && touch a.txt", "with space");
  names('cd "with space" && touch a.txt', "with space");
  names(`cd ${start}/other && touch a.txt`, "other");
  names("cd .. && touch a.txt", "..");
  names("cd / && touch a.txt", "/");
  names("touch a.txt && cd sub && touch a.txt", ".", "sub");
  names("mkdir -p sub && cd sub && touch a.txt", "sub");
  names("cd sub && make 2>&1 | tee a.txt", "sub");
  names("cd sub && make &> a.txt; echo done", "sub");
  names("(cd sub && make); touch a.txt", ".");
  names("cd sub && touch ../a.txt", ".");
  names("cd link && touch a.txt", "link");
  names("cd link && touch ../a.txt", "../far");
  names('echo "cdrom; x" > a.txt', ".");
  names("cp cd-list.txt a.txt", ".");
});

test("where it is not plain, only absolute paths are names", () => {
  for (const cd of [
    "cd", "cd -", "cd '-'", "cd ~", "cd ~/sub", "cd $HOME", 'cd "$DIR"', 'cd "`pwd`/sub"', "cd $(pwd)/sub", "cd s*", "cd su?",
    "cd {sub,other}", "cd sub other", "cd -- sub", "cd -P sub", "cd su\\b", "cd missing", "cd file", "cd sub 2>/dev/null",
    "pushd sub", "builtin cd sub", "true | cd sub", "eval 'cd sub'", "{ cd sub", "if true; then cd sub; fi", "! cd sub", "cd sub # now",
  ]) {
    names(`${cd} && touch a.txt`);
    names(`${cd}; touch a.txt ${start}/other/a.txt`, "other");
  }
  names("false && cd sub; touch a.txt");
  names("test -d sub && cd sub\ntouch a.txt");
  names("cd sub || touch a.txt");
  names("cd sub & touch a.txt");
  names("cd sub | touch a.txt");
  names("bash -c 'cd sub && touch a.txt'");
  names("cat > go.sh <<END\ncd sub\nEND\ntouch a.txt");
  names("case x in x) touch a.txt;; esac");
  names("cd $DIR && cd sub && touch a.txt");
  names(`cd $DIR && cd ${start}/sub && touch a.txt`, "sub");
  names("cd 'sub && touch a.txt");
  assert.deepEqual(placesIn("cd '\0' && touch a.txt", start), []);
});

test("a long command is read in bounds", () => {
  const words = Array.from({ length: 10_000 }, (_, n) => `f${n}`).join(" ");
  assert.equal(placesIn(`cat ${words}`, start).length, 256);
  assert.deepEqual(placesIn("((((".repeat(10_000), start), []);
  assert.deepEqual(placesIn("cd sub &&".repeat(5_000), start), []);
});
