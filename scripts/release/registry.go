package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// wheelTags are the platforms of wheels; the binary needs no C library.
var wheelTags = map[string]string{
	"linux/amd64":  "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
	"linux/arm64":  "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64": "macosx_11_0_x86_64", "darwin/arm64": "macosx_11_0_arm64",
}

// wheel packs the binary as the command haft of the Python package of that name, which brings the
// client.
func (r *release) wheel(b build) error {
	tags, ok := wheelTags[b.os+"/"+b.arch]
	if !ok {
		return nil
	}
	readme, err := r.read("README.md")
	if err != nil {
		return err
	}
	client, err := r.pythonClient()
	if err != nil {
		return err
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: haft\nVersion: %s\nSummary: Runs the tools that AI "+
		"agents call, "+
		"in a sandbox\nRequires-Python: >=3.10\nLicense-Expression: Apache-2.0\nRequires-Dist: haft-client>=%s\n"+
		"Description-Content-Type: text/markdown\n\n%s", r.version.python, client.version, readme)
	files := []file{{"haft-" + r.version.python + ".data/scripts/haft", 0o755, b.binary}}
	return r.zipWheel("haft", r.version.python, tags, metadata, files)
}

// A pythonProject is what pyproject.toml says of the client.
type pythonProject struct {
	Project struct {
		Name, Description string
		Python            string              `toml:"requires-python"`
		Dependencies      []string            `toml:"dependencies"`
		Extras            map[string][]string `toml:"optional-dependencies"`
	}
	version string
}

func (r *release) pythonClient() (p pythonProject, err error) {
	raw, err := r.read("clients/python/pyproject.toml")
	if err != nil {
		return p, err
	}
	if err := toml.Unmarshal(raw, &p); err != nil {
		return p, err
	}
	source, err := r.read("clients/python/src/haft/_version.py")
	if err != nil {
		return p, err
	}
	m := regexp.MustCompile(`__version__ = "([^"]+)"`).FindSubmatch(source)
	if m == nil {
		return p, fmt.Errorf("clients/python has no version")
	}
	p.version = string(m[1])
	return p, nil
}

// clientWheel packs the Python client, which is the same on all platforms.
func (r *release) clientWheel() error {
	p, err := r.pythonClient()
	if err != nil {
		return err
	}
	readme, err := r.read("clients/python/README.md")
	if err != nil {
		return err
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: %s\nVersion: %s\nSummary: %s\nRequires-Python: %s\n"+
		"License-Expression: Apache-2.0\n", p.Project.Name, p.version, p.Project.Description, p.Project.Python)
	for _, d := range p.Project.Dependencies {
		metadata += "Requires-Dist: " + d + "\n"
	}
	for _, extra := range slices.Sorted(maps.Keys(p.Project.Extras)) {
		metadata += "Provides-Extra: " + extra + "\n"
		for _, d := range p.Project.Extras[extra] {
			metadata += fmt.Sprintf("Requires-Dist: %s; extra == %q\n", d, extra)
		}
	}
	metadata += "Description-Content-Type: text/markdown\n\n" + string(readme)
	var files []file
	root := filepath.Join(r.source, "clients/python/src")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "__pycache__") {
			return err
		}
		content, err := os.ReadFile(path)
		name, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		files = append(files, file{filepath.ToSlash(name), 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	return r.zipWheel(strings.ReplaceAll(p.Project.Name, "-", "_"), p.version, "any", metadata, files)
}

// zipWheel writes a wheel.
func (r *release) zipWheel(name, version, tags, metadata string, files []file) error {
	info := name + "-" + version + ".dist-info/"
	description := "Wheel-Version: 1.0\nGenerator: haft release\nRoot-Is-Purelib: " +
		fmt.Sprint(tags == "any") + "\n"
	for tag := range strings.SplitSeq(tags, ".") {
		description += "Tag: py3-none-" + tag + "\n"
	}
	license, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	files = append(files, file{info + "METADATA", 0o644, []byte(metadata)},
		file{info + "WHEEL", 0o644, []byte(description)}, file{info + "licenses/LICENSE", 0o644, license})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files = append(files, file{info + "RECORD", 0o644, []byte(record.String())})
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(fs.FileMode(f.mode))
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("%s-%s-py3-none-%s.whl", name, version, tags), b.Bytes())
}

// nodeNames are the platforms as Node calls them.
var nodeNames = map[string][2]string{
	"linux/amd64": {"linux", "x64"}, "linux/arm64": {"linux", "arm64"},
	"darwin/amd64": {"darwin", "x64"}, "darwin/arm64": {"darwin", "arm64"},
}

// npmPlatform packs the binary for one platform.
func (r *release) npmPlatform(b build) error {
	node, ok := nodeNames[b.os+"/"+b.arch]
	if !ok {
		return nil
	}
	name := "cli-" + node[0] + "-" + node[1]
	return r.npm(name, map[string]any{
		"description": "The binary of Haft for " + node[0] + " on " + node[1],
		"os":          []string{node[0]}, "cpu": []string{node[1]},
	}, []file{{"package/bin/haft", 0o755, b.binary}})
}

// npmCommand packs the command, which brings the binary of the platform.
func (r *release) npmCommand(builds []build) error {
	binaries := map[string]string{}
	for _, b := range builds {
		if node, ok := nodeNames[b.os+"/"+b.arch]; ok {
			binaries["@haft/cli-"+node[0]+"-"+node[1]] = r.version.semver
		}
	}
	return r.npm("cli", map[string]any{
		"description":          "Haft runs the tools that AI agents call, in a sandbox",
		"bin":                  map[string]string{"haft": "bin/haft.js"},
		"optionalDependencies": binaries,
		"engines":              map[string]string{"node": ">=20.3"},
	}, []file{{"package/bin/haft.js", 0o755, []byte(npmStart)}})
}

// npmStart starts the binary of the platform in place of itself, as far as Node can.
const npmStart = `#!/usr/bin/env node
"use strict";
const { spawn } = require("node:child_process");
let binary;
try {
  binary = require.resolve("@haft/cli-" + process.platform + "-" + process.arch + "/bin/haft");
} catch {
  console.error("haft: there is no binary for " + process.platform + " on " + process.arch + ". If this platform " +
	"has one, " +
    "install again without --omit=optional.");
  process.exit(70);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (err) => { console.error("haft: " + err.message); process.exit(70); });
child.on("exit", (code, signal) => {
  if (signal) { process.removeAllListeners(signal); process.kill(process.pid, signal); } else process.exit(code);
});
`

// npm writes a package for npm.
func (r *release) npm(name string, description map[string]any, files []file) error {
	description["name"], description["version"], description["license"] = "@haft/"+name, r.version.semver, "Apache-2.0"
	raw, err := json.MarshalIndent(description, "", "  ")
	if err != nil {
		return err
	}
	license, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	content, err := r.tarball(append(files, file{"package/package.json", 0o644, append(raw, '\n')},
		file{"package/LICENSE", 0o644, license}), false)
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("haft-%s-%s.tgz", name, r.version.semver), content)
}
