package requirement_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"haft/internal/requirement"
	"haft/internal/skiptest"
)

// ask runs a judge over cases and returns what it says of each.
func ask[In, Out any](t *testing.T, cases []In, argv ...string) []Out {
	t.Helper()
	text, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []Out
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(cases) {
		t.Fatalf("%d answers to %d questions: %v", len(answers), len(cases), err)
	}
	return answers
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

var release = regexp.MustCompile(`^v?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*`)

// TestConformance_pep440 compares with the library that pip itself uses.
func TestConformance_pep440(t *testing.T) {
	if err := exec.Command("python3", "-c", "import pip._vendor.packaging.specifiers").Run(); err != nil {
		skiptest.Lacking(t, "python", "there is no python3 with pip")
	}
	r := rand.New(rand.NewPCG(1, 2))
	version := func(local bool) string {
		v := pick(r, "", "", "", "1!", "v") + pick(r, "0", "1", "1.0", "1.0.0", "1.1", "1.1.0", "1.10", "2", "01.2") +
			pick(r, "", "", "", "a1", "b2", "rc1", "-alpha", ".pre2", "c3") +
			pick(r, "", "", "", ".post1", "-2", "rev3") + pick(r, "", "", "", ".dev0", "dev4")
		if local {
			v += pick(r, "", "", "", "+x", "+1.Y-z")
		}
		return v
	}
	var cases [][2]string
	for range 6000 {
		spec := pick(r, "==", "!=", ">=", "<=", "<", ">", "~=")
		spec += version(spec == "==" || spec == "!=")
		if strings.HasPrefix(spec, "==") || strings.HasPrefix(spec, "!=") {
			if tail := pick(r, "", "", ".*"); tail != "" {
				spec = strings.Replace(spec, "v", "", 1) + tail // packaging compares that letter for letter
			}
		}
		cases = append(cases, [2]string{spec, version(true)})
	}
	answers := ask[[2]string, *bool](t, cases, "python3", "-c", `
import json, sys
from pip._vendor.packaging.specifiers import SpecifierSet, InvalidSpecifier
out = []
for spec, version in json.load(sys.stdin):
    try:
        out.append(SpecifierSet(spec).contains(version, prereleases=True))
    except InvalidSpecifier:
        out.append(None)
print(json.dumps(out))`)
	accepted := 0
	for i, c := range cases {
		p, err := requirement.ParsePip("a" + c[0])
		if err != nil && strings.HasSuffix(c[0], ".*") {
			continue // we take numbers only before .*, as every document of PEP 440 does
		}
		if (err == nil) != (answers[i] != nil) {
			t.Errorf("%s: we say %v, packaging reads it: %v", c[0], err, answers[i] != nil)
			continue
		}
		if err != nil {
			continue
		}
		accepted++
		if strings.HasSuffix(c[0], ".*") && strings.Count(c[0], ".")-1 > strings.Count(release.FindString(c[1]), ".") {
			continue // the packaging of older pips does not count 1.1a1 as 1.1.0a1
		}
		fits := requirement.Fits(p.Specs, c[1])
		// < and > have exceptions for what is near the version, which we leave to pip;
		// and with ~= packaging counts a suffix as a number, which PEP 440 does not.
		wider := strings.HasPrefix(c[0], "~=") || strings.HasPrefix(c[0], "<") && c[0][1] != '=' ||
			strings.HasPrefix(c[0], ">") && c[0][1] != '='
		if fits != *answers[i] && !(wider && fits) {
			t.Errorf("%s with %s: we say %v, packaging %v", c[0], c[1], fits, *answers[i])
		}
	}
	if accepted < 2000 {
		t.Errorf("only %d of %d were compared", accepted, len(cases))
	}
}

// TestConformance_semver compares with the library that npm itself uses.
func TestConformance_semver(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err == nil {
		npm, err = filepath.EvalSymlinks(npm)
	}
	library := filepath.Join(filepath.Dir(filepath.Dir(npm)), "node_modules", "semver")
	if _, statErr := os.Stat(library); err != nil || statErr != nil {
		skiptest.Lacking(t, "node", "there is no npm with its semver")
	}
	whole := ranges(rand.New(rand.NewPCG(3, 4)))
	var cases [][4]string
	for range 4000 {
		a, b := whole(), whole()
		norm, merged := "", ""
		if n, err := requirement.ParseNPM("a@" + a); err == nil {
			norm = n.Range
		}
		one, err1 := requirement.Parse("one", nil, []string{"a@" + a})
		two, err2 := requirement.Parse("two", nil, []string{"a@" + b})
		if err1 == nil && err2 == nil {
			if both, err := requirement.Merge(one, two); err == nil {
				merged = both.NPM[0].Range
			}
		}
		cases = append(cases, [4]string{a, b, norm, merged})
	}
	answers := ask[[4]string, struct {
		Possible             bool
		Differ, DifferMerged string
	}](t, cases, "node", "-e", fmt.Sprintf(`
const semver = require(%q)
const releases = ['0.0.0','0.0.1','0.0.2','0.1.0','0.1.5','0.2.0','1.0.0','1.0.1','1.2.0','1.2.3','1.2.4','1.3.0','1.9.9','2.0.0','2.0.1','3.0.0']
const versions = []
for (const v of releases)
  versions.push(v, v + '-0', v + '-alpha', v + '-alpha.1', v + '-alpha.2', v + '-1')
const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'))
console.log(JSON.stringify(cases.map(([a, b, norm, merged]) => ({
  possible: versions.some(v => semver.satisfies(v, a)),
  differ: norm && versions.find(v => semver.satisfies(v, a) !== semver.satisfies(v, norm)) || '',
  differMerged: merged && releases.find(v => (semver.satisfies(v, a) && semver.satisfies(v, b)) !== semver.satisfies(v, merged)) || '',
}))))`, library))
	merged := 0
	for i, c := range cases {
		if c[2] == "" && answers[i].Possible {
			t.Errorf("%q is refused, though there are versions for it", c[0])
		}
		if answers[i].Differ != "" {
			t.Errorf("%q becomes %q, which is different for %s", c[0], c[2], answers[i].Differ)
		}
		if answers[i].DifferMerged != "" {
			t.Errorf("%q and %q become %q, which is different for %s", c[0], c[1], c[3], answers[i].DifferMerged)
		}
		if c[3] != "" {
			merged++
		}
	}
	if merged < 3000 {
		t.Errorf("only %d joined ranges were compared", merged)
	}
}

// ranges returns a maker of semver ranges.
func ranges(r *rand.Rand) func() string {
	part := func() string {
		v := pick(r, "0", "1", "2", "0.0", "0.1", "1.0", "1.2", "1.x", "0.0.0", "0.0.1", "0.1.0", "1.0.0", "1.2.3",
			"2.0.0", "*", "1.2.*")
		if strings.Count(v, ".") == 2 && !strings.Contains(v, "*") {
			v += pick(r, "", "", "-0", "-alpha", "-alpha.1", "-1", "+b")
		}
		return v
	}
	span := func() string {
		if r.IntN(6) == 0 {
			return part() + " - " + part()
		}
		s := pick(r, "", "^", "~", ">=", "<=", "<", ">", "=", "> ", "~>") + part()
		if r.IntN(3) == 0 {
			s += " " + pick(r, ">=", "<=", "<", ">") + part()
		}
		return s
	}
	return func() string {
		s := span()
		for r.IntN(3) == 0 {
			s += pick(r, "||", " || ") + span()
		}
		return s
	}
}
