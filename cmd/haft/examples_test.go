package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"haft/internal/modeltest"
)

// TestExamples does what the README.md of each example says: it runs every block of shell in a copy of the directory,
// and compares the output with the block of text that follows. Examples with a script of a model in testdata/examples
// are run with models that speak the formats of three vendors.
func TestExamples(t *testing.T) {
	for _, dir := range examples(t, false) {
		runFormats(t, dir, os.Getenv("XDG_CACHE_HOME"))
	}
}

// TestPackages_in_examples does the same for the examples that install packages.
func TestPackages_in_examples(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing is fetched from an index")
	}
	_, cache := packageCache(t)
	for _, dir := range examples(t, true) {
		runFormats(t, dir, cache)
	}
}

// examples returns the directories of those examples that need packages, or of those that need none.
func examples(t *testing.T, packages bool) (dirs []string) {
	t.Helper()
	pages, err := filepath.Glob("../../examples/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		dir := filepath.Dir(page)
		if _, err := os.Stat(filepath.Join(dir, "requirements.txt")); (err == nil) == packages {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) < 3 {
		t.Fatalf("there are the examples %q", dirs)
	}
	return dirs
}

// runFormats runs an example with models of all formats, or once if it has no model.
func runFormats(t *testing.T, dir, cache string) {
	formats := []string{""}
	if _, err := os.Stat("testdata/examples/" + filepath.Base(dir) + ".json"); err == nil {
		formats = []string{"openai", "anthropic", "gemini"}
	}
	for _, format := range formats {
		t.Run(filepath.Base(dir)+"/"+format, func(t *testing.T) {
			t.Parallel()
			runExample(t, dir, format, "XDG_CACHE_HOME="+cache)
		})
	}
}

// exampleBlock finds a block of shell, and the block of text after it, if there is one.
var exampleBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n?```text\n(.*?)```\n)?")

// runExample runs the blocks of an example with a model that speaks a format; "" if it needs none.
func runExample(t *testing.T, dir, format string, env ...string) {
	work := filepath.Join(t.TempDir(), "example")
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	runPage(t, filepath.Join(dir, "README.md"), work, append(env, modelEnv(t, filepath.Base(dir), format)...)...)
}

// modelEnv starts the model of an example, which speaks a format, and returns the variables that name it.
func modelEnv(t *testing.T, example, format string) []string {
	if format == "" {
		return nil
	}
	m := exampleModel(t, example)
	t.Cleanup(func() {
		if m.Left() > 0 && !t.Failed() {
			t.Errorf("%d steps of the model were not asked for", m.Left())
		}
	})
	if format == "openai" {
		return []string{"OPENAI_BASE_URL=" + m.URL, "OPENAI_API_KEY=k", "ANTHROPIC_API_KEY="}
	}
	models := filepath.Join(t.TempDir(), "models.toml")
	line := strings.Replace(modelsFile(m), `"openai"`, `"`+format+`"`, 1)
	if err := os.WriteFile(models, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"HAFT_MODELS=" + models}
}

// endOfBlock separates the outputs of blocks.
const endOfBlock = "\x01\n"

// runPage runs the blocks of shell of a page in a directory, all in one shell, and compares what each prints with the
// block of text after it.
func runPage(t *testing.T, page, work string, env ...string) {
	text, err := os.ReadFile(page) //nolint:gosec // pages of the repository
	if err != nil {
		t.Fatal(err)
	}
	haft, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	env = append([]string{"PATH=" + filepath.Dir(haft) + ":" + os.Getenv("PATH"), "XDG_STATE_HOME=" + t.TempDir(),
		"XDG_CONFIG_HOME=" + t.TempDir(), "HAFT_DATA=", "HAFT_MODELS=", "HAFT_USER=ann", "HAFT_LOCK_WAIT=60s",
		"HAFT_ALLOW_REDUCED=1", "HAFT_READY_WAIT=0s"}, env...)
	blocks := exampleBlock.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "```sh\n"); n != len(blocks) || n == 0 {
		t.Fatalf("%d of %d blocks can be read", len(blocks), n)
	}
	script := "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
	for _, b := range blocks {
		script += b[1] + "printf '\\001\\n'\n"
	}
	c := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", script) //nolint:gosec // as above
	c.Dir, c.Env = work, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	outputs := strings.Split(string(out), endOfBlock)
	if done := len(outputs) - 1; err != nil {
		t.Fatalf("%s:\n%s\n%v:\n%s", page, blocks[min(done, len(blocks)-1)][1], err, outputs[done])
	}
	for i, b := range blocks {
		if b[2] != "" && !looksLike(b[2], outputs[i]) {
			t.Errorf("%s\nprints\n%s\nand %s says\n%s", b[1], outputs[i], page, b[2])
		}
	}
}

// exampleModel starts the model of an example.
func exampleModel(t *testing.T, example string) *modeltest.Server {
	f, err := os.Open("testdata/examples/" + example + ".json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	steps, err := modeltest.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return modeltest.Start(t, steps...)
}

// What differs from run to run and from machine to machine, and what stands for it.
var differing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b(ag|a|c|file|t)_[A-Za-z0-9]{20,}`), "${1}_ID"},
	{regexp.MustCompile(`sha256:[0-9a-f]+`), "sha256:DIGEST"},
	{regexp.MustCompile(`\bin [0-9.]+(ns|µs|ms|s), .*`), "in TIME"},
	{regexp.MustCompile(`\b([0-9.]+(ns|µs|ms|s|m[0-9.]+s))\b`), "TIME"},
	{regexp.MustCompile(`\b(now|[0-9]+ (s|min) ago)\b`), "WHEN"},
	{regexp.MustCompile(`[0-9]+ steps, [0-9]+ tokens in, [0-9]+ out`), "N steps, N tokens in, N out"},
	{regexp.MustCompile(`[0-9]+ bytes`), "N bytes"},
	{regexp.MustCompile(` +`), " "},
}

// looksLike reports whether an output is as a README says, where a line of … stands for any lines.
func looksLike(want, got string) bool {
	for _, d := range differing {
		want, got = d.pattern.ReplaceAllString(want, d.with), d.pattern.ReplaceAllString(got, d.with)
	}
	lines := strings.SplitAfter(want, "\n")
	for i, line := range lines {
		if lines[i] = regexp.QuoteMeta(line); line == "…\n" {
			lines[i] = "(?s:.*)"
		}
	}
	return regexp.MustCompile("^" + strings.Join(lines, "") + "$").MatchString(got)
}

func TestLooksLike(t *testing.T) {
	for _, test := range []struct {
		want, got string
		fits      bool
	}{
		{"id  ag_AAAAAAAAAAAAAAAAAAAAAA\n", "id ag_BBBBBBBBBBBBBBBBBBBBBB\n", true},
		{"✓ a success in 3ms, isolation namespaces (local)\n", "✓ a success in 1.2s, isolation reduced (lo…\n", true},
		{"✓ a success in 3ms, isolation x (local)\n", "✓ a error in 3ms, isolation x (local)\n", false},
		{"a\n…\nz\n", "a\nb\nc\nz\n", true},
		{"a\n…\nz\n", "a\nb\nc\n", false},
		{"a\n", "a\nb\n", false},
		{"paid 3\n", "paid 4\n", false},
	} {
		if looksLike(test.want, test.got) != test.fits {
			t.Errorf("%q for %q", test.got, test.want)
		}
	}
}
