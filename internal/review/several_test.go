package review_test

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"testing"

	"haft"
	"haft/internal/review"
)

// alone runs each script in a process of its own: the script for one of several files is another.
func alone(t *testing.T) func(context.Context, string, []byte) ([]byte, error) {
	_, path := python(t), interpreters()[0] // or the test is skipped
	return func(ctx context.Context, script string, input []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, path, "-I", "-S", "-c", script)
		cmd.Stdin = bytes.NewReader(input)
		return cmd.Output()
	}
}

// TestReview_several: in a tool of several files, names go from one to another, and a file that
// was reviewed as data or in another language can be run.
func TestReview_several(t *testing.T) {
	run := alone(t)
	py, js, sh := haft.KindPython, haft.KindJavaScript, haft.KindBash
	for _, c := range []struct {
		kind         haft.Kind
		source, rule string
	}{
		{py, "from os import system as run", "python-shell"},
		{py, "from os import system", "python-shell"},
		{py, "parse = eval", "python-eval"},
		{py, "from builtins import exec as go", "python-eval"},
		{py, "from os import *", "python-computed-attribute"},
		{py, "from helper import o\no.system(input())", "python-eval"},
		{py, "import helper\nhelper.o.system(input())", "python-eval"},
		{py, "from helper import runpy as r\nr.run_path('menu.txt')", "python-eval"},
		{py, "import helper\nhelper.p.loads(b'')", "python-eval"},
		{py, "from helper import o\nlist(map(o.system, [input()]))", "python-eval"},
		{py, "import helper\nhelper.mod().system(input())", "python-eval"},
		{py, "def f(o):\n  return o.system('ls')", "python-eval"},
		{py, "from helper import run\nrun(input(), shell=True)", "python-shell"},
		{py, "import subprocess, sys\nsubprocess.run([sys.executable, 'payload.txt'])", "source-runs-file"},
		{py, "import subprocess\nsubprocess.run(['/usr/bin/python3.12', 'payload.txt'])", "source-runs-file"},
		{py, "from helper import run\nrun(['ba' + 'sh', 'payload.txt'])", "source-runs-file"},
		{py, "import subprocess\nsubprocess.run('perl')", "source-runs-file"},
		{py, "import os\nos.system('node payload.txt')", "source-runs-file"},
		{py, "import sys\nsys.path.insert(0, 'data')", "python-path"},
		{py, "import sys\nsys.path = ['data']", "python-path"},
		{py, "from sys import path", "python-path"},
		{py, "# coding: utf-7\nx = 1", "source-unreadable"},
		{js, "require('./payload.txt')", "source-runs-file"},
		{js, "import x from './h.py'", "source-runs-file"},
		{js, "require('child_process').spawn('python3', ['payload.txt'])", "source-runs-file"},
		{js, "require('child_process').spawn(process.execPath, ['payload.txt'])", "source-runs-file"},
		{js, "require('child_process').fork('./payload.txt')", "source-runs-file"},
		{js, "exports.run = require('child_process').exec", "js-shell"},
		{js, "exports.parse = eval", "js-eval"},
		{js, "export { exec as run } from 'child_process'", "js-shell"},
		{js, "export * from 'child_process'", "js-shell"},
		{js, "import { exec } from 'child_process'; export { exec as run }", "js-shell"},
		{js, "import { exec } from 'child_process'; export const run = exec", "js-shell"},
		{sh, ". ./payload.txt", "source-runs-file"},
		{sh, "source ./lib", "source-runs-file"},
		{sh, "source \"$1\"", "source-runs-file"},
		{js, "exports.cp = require('child_process')", "js-shell"},
		{sh, "f='./payload.txt x'\nsource $f.sh", "source-runs-file"},
		{sh, ". $(cat name).sh", "source-runs-file"},
		{sh, "bash payload.txt", "source-runs-file"},
		{sh, "env python3.12 payload.txt", "source-runs-file"},
	} {
		for _, several := range []bool{true, false} {
			r, err := review.New(review.Config{Python: run, Several: several}).Review(t.Context(), c.kind, c.source)
			if err != nil {
				t.Fatal(err)
			}
			has := slices.ContainsFunc(r.Findings, func(f haft.Finding) bool { return f.Rule == c.rule })
			only := slices.Contains([]string{"source-runs-file", "python-path", "source-unreadable"}, c.rule)
			if several && !has || !several && has && only {
				t.Errorf("%q, several %v: got %+v about %s", c.source, several, r.Findings, c.rule)
			}
		}
	}
	for source, kind := range map[string]haft.Kind{
		"from lib.x import y\nimport os\nx = os.path.join('a', 'b')\n": py,
		"require('./a'); require('../d.json')":                         js,
		". ./lib.sh\n. \"$dir/lib.bash\"\n":                            sh,
	} {
		r, err := review.New(review.Config{Python: run, Several: true}).Review(t.Context(), kind, source)
		bad := func(f haft.Finding) bool { return f.Severity.AtLeast(haft.SeverityMedium) }
		if err != nil || slices.ContainsFunc(r.Findings, bad) {
			t.Errorf("%q: got %+v %v, want nothing", source, r.Findings, err)
		}
	}
}

// TestReview_coding: the harness compiles text, for which a coding comment means nothing. The
// reviewer reads the same.
func TestReview_coding(t *testing.T) {
	run := alone(t)
	r, err := review.New(review.Config{Python: run}).Review(t.Context(), haft.KindPython,
		"# coding: utf-7\nx = 1 #+ACAAIg-\ny = '+ACcAIw-'.strip(eval(input()))\n")
	if err != nil || !slices.ContainsFunc(r.Findings, func(f haft.Finding) bool { return f.Rule == "python-eval" }) {
		t.Errorf("got %+v %v, want python-eval", r.Findings, err)
	}
}
