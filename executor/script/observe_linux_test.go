package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
)

// What a tool touches is seen, also behind a link, and nothing of its interpreter and its imports.
func TestObserve(t *testing.T) {
	needControl(t, haft.ControlRoot)
	read := func(name string) haft.Access { return haft.Access{Kind: haft.AccessRead, Name: name} }
	write := func(name string) haft.Access { return haft.Access{Kind: haft.AccessWrite, Name: name} }
	run := func(name string) haft.Access { return haft.Access{Kind: haft.AccessProgram, Name: name} }
	tests := []struct {
		name   string
		kind   haft.Kind
		source string
		want   []haft.Access
	}{
		{"nothing", haft.KindPython, "def f(): return 1", nil},
		{"imports", haft.KindPython, "import json, sqlite3, http.client, email.message, ssl, asyncio, csv, uuid\n" +
			"def f():\n import decimal, xml.dom, zoneinfo\n return str(zoneinfo.ZoneInfo('Europe/Berlin'))", nil},
		{"reads", haft.KindPython, "def f(): return len(open('/etc/passwd').read())",
			[]haft.Access{read("/etc/passwd")}},
		{"link", haft.KindPython, "import os\ndef f():\n os.symlink('/etc', 'x'); return len(open('x/group').read())",
			[]haft.Access{write("/work/x"), read("/etc"), read("/etc/group")}},
		{"magic link", haft.KindPython, "def f(): return len(open('/proc/self/root/etc/passwd').read())",
			[]haft.Access{read("/proc/self/root/etc/passwd")}},
		{"writes", haft.KindPython, "import os\ndef f():\n open('out/a', 'w').write('x'); os.remove('out/a')",
			[]haft.Access{write("/work/out/a")}},
		{"hides", haft.KindPython, "def f():\n open('.haft/hidden', 'w').write(open('.haft/files/f_1/a').read())",
			[]haft.Access{write("/work/.haft/hidden")}},
		{"node hides", haft.KindJavaScript, "import fs from 'fs'\n" +
			"export function f() { fs.writeFileSync('.haft/hidden', fs.readFileSync('.haft/files/f_1/a')); return 1 }",
			[]haft.Access{write("/work/.haft/hidden")}},
		{"program", haft.KindPython, "import os\ndef f():\n try: os.execv('/bin/none', ['x'])\n except OSError: pass",
			[]haft.Access{run("/bin/none")}},
		{"node", haft.KindJavaScript, "import fs from 'fs'; import 'crypto'; import 'https'\n" +
			"export function f() { return fs.readFileSync('/etc/passwd', 'utf8').length }",
			[]haft.Access{read("/etc/passwd")}},
		{"node runs", haft.KindJavaScript, "import { spawnSync } from 'child_process'\n" +
			"export function f() { spawnSync('/bin/none'); return 1 }", []haft.Access{run("/bin/none")}},
		{"bash", haft.KindBash, "cat /etc/group >copy; date >/dev/null",
			[]haft.Access{write("/work/copy"), run("/usr/bin/cat"), read("/etc/group"), run("/usr/bin/date")}},
	}
	executors := map[haft.Kind]*script.Executor{}
	for _, k := range []haft.Kind{haft.KindPython, haft.KindJavaScript, haft.KindBash} {
		executors[k] = setupLocal(t, k, script.Config{})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []haft.Touched
			req := executor.Request{Org: "acme", Tool: "tool", Kind: tt.kind, Function: "f", Source: tt.source,
				Observe: func(t haft.Touched) { got = append(got, t) }}
			if strings.Contains(tt.name, "hides") { // what Haft itself puts there is no doing of the tool
				req.Files = []sandbox.File{{Name: ".haft/files/f_1/a", Data: []byte("x")}}
			}
			res, err := executors[tt.kind].Execute(t.Context(), req)
			if err != nil || res.Status != haft.StatusSuccess {
				t.Fatalf("got %+v, %v", res, err)
			}
			if len(got) == 1 && tt.name == "writes" && (got[0].IO == nil || got[0].IO.Writes == 0 ||
				got[0].IO.WrittenBytes == 0 || got[0].IO.Reads == 0) {
				t.Errorf("the counts are %+v", got[0].IO)
			}
			if len(got) != 1 || !got[0].Observed || got[0].Cut || !slices.Equal(got[0].Accesses, tt.want) {
				t.Errorf("touched %s, want %v", fmt.Sprint(got), tt.want)
			}
		})
	}
}
