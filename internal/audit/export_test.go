package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"haft"
	"haft/internal/audit"
	"haft/internal/skiptest"
)

// export returns the export of c.
func export(t testing.TB, c []audit.Entry, x audit.Extract) []byte {
	t.Helper()
	var file bytes.Buffer
	if _, err := audit.Export(&file, each(c), x); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// found says how Read finds that file is not what was written, or "".
func found(file []byte, org string, keys audit.Keys) string {
	report, err := audit.Read(bytes.NewReader(file), org, keys, nil, nil)
	switch {
	case err != nil:
		return err.Error()
	case !report.Sound():
		return report.Err().Error()
	}
	return ""
}

func TestRead_finds_every_change_of_a_single_byte(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	c := chain("acme", 2)
	odd := full()
	odd.Body = json.RawMessage("{ \"pretty\": \"<b>\"\n}") // goes through base64
	c = append(c, audit.Link(c[1].Head(), odd))
	bare := audit.Link(c[1].Head(), audit.Entry{Kind: "k", Time: day})
	bits := make([]byte, 8)
	for i := range bits {
		bits[i] = 1 << i
	}
	all := make([]byte, 255)
	for i := range all {
		all[i] = byte(i + 1)
	}
	if skiptest.Race {
		bits = []byte{1, 'a' ^ 'A'}
		all = bits
	}
	for name, tc := range map[string]struct {
		file  []byte
		masks []byte
	}{
		"unsigned, every other byte": {export(t, []audit.Entry{bare}, audit.Extract{From: c[1].Head()}), all},
		"signed, every bit": {export(t, c, audit.Extract{
			From: audit.Head{Org: "acme"}, Checkpoints: []audit.Checkpoint{s.Sign(c[1].Head(), day)}, Signer: s,
			Time: day,
		}), bits},
		"chained and signed, every bit": {export(t, c[:1], audit.Extract{
			From: audit.Head{Org: "acme"}, Checkpoints: chained(s, c, 1), Marks: marksOf(chained(s, c, 1)[0]),
			Signer: s, Time: day,
		}), bits},
		"empty and signed, every bit": {export(t, nil, audit.Extract{From: c[1].Head(), Signer: s, Time: day}), bits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if how := found(tc.file, "acme", keys); how != "" {
				t.Fatalf("without a change: %s", how)
			}
			file := slices.Clone(tc.file)
			for i := range file {
				for _, mask := range tc.masks {
					file[i] ^= mask
					if found(file, "acme", keys) == "" {
						t.Errorf("byte %d as %q in place of %q was not found:\n%s", i, file[i], tc.file[i], tc.file)
					}
					file[i] ^= mask
				}
			}
			for i := range tc.file {
				if found(tc.file[:i], "acme", keys) == "" {
					t.Errorf("the first %d bytes of %d pass for the whole", i, len(tc.file))
				}
			}
		})
	}
}

func TestRead_refuses(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	c := chain("acme", 3)
	checkpoint := s.Sign(c[1].Head(), day)
	x := audit.Extract{From: audit.Head{Org: "acme"}, Checkpoints: []audit.Checkpoint{checkpoint}, Signer: s, Time: day}
	good := string(export(t, c, x))
	lines := strings.SplitAfter(strings.TrimSuffix(good, "\n"), "\n")
	lines[len(lines)-1] += "\n" // header, entry, entry, checkpoint, entry, end
	without := func(i int) string { return strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "") }
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	unsigned := string(export(t, c, audit.Extract{From: audit.Head{Org: "acme"}}))
	foreign := string(export(t, chain("other", 1), audit.Extract{From: audit.Head{Org: "other"}}))

	for name, tc := range map[string]struct{ file, want string }{
		"nothing":              {"", "cut off"},
		"something else":       {"{}\n", "line 1 of the export is not as it was written"},
		"a later version":      {replace(audit.Format, "haft-audit-export-3"), "later version"},
		"an entry first":       {without(0), "not an export"},
		"another organisation": {foreign, "another organisation"},
		"a missing entry":      {without(2), "line 5 of the export counts other lines"},
		"a missing checkpoint": {without(3), "counts other lines"},
		"no end":               {without(5), "last line is missing"},
		"no end of line":       {strings.TrimSuffix(good, "\n"), "line 6 of the export is cut off"},
		"a line after the end": {good + lines[1], "line 7 of the export comes after the end"},
		"a second header":      {lines[0] + good, "line 2 of the export is a second header"},
		"a field nobody knows": {replace(`"entry":{`, `"entry":{"note":"approved",`),
			"line 2 of the export is not as"},
		"a field twice":                 {replace(`"seq":1`, `"seq":9,"seq":1`), "line 2 of the export is not as"},
		"a field in other letters":      {replace(`"kind"`, `"Kind"`), "line 2 of the export is not as"},
		"another way to write a string": {replace(`"ada"`, `"\u0061da"`), "line 2 of the export is not as"},
		"white space":                   {replace(`"seq":1`, `"seq": 1`), "line 2 of the export is not as"},
		"a time finer than is hashed":   {replace(`.535897Z`, `.5358971Z`), "line 2 of the export is not as"},
		"line ends of another system":   {strings.ReplaceAll(good, "\n", "\r\n"), "line 1 of the export is not as"},
		"two things in a line": {replace(`{"checkpoint":`, `{"entry":`+entryOf(lines[1])+`,"checkpoint":`),
			"line 4 of the export is not as"},
		"raw bytes beside a checkpoint": {replace(`{"checkpoint":`, `{"raw":"AAAA","checkpoint":`),
			"line 4 of the export is not as"},
		"a beginning without a hash": {replace(audit.Genesis("acme").Hash, ""),
			"does not say where the chain begins"},
		"two entries swapped": {lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""),
			"out of order"},
		"a checkpoint later on": {strings.Join(lines[:3], "") + lines[4] + lines[3] + lines[5],
			"entry 2, or its checkpoint, is out of order"},
		"an end of another chain": {strings.Join(lines[:5], "") + endOf(t, s), "names another end"},
		"a line that is too long": {lines[0] + strings.Repeat("x", audit.MaxLine+1) + "\n",
			"line 2 of the export is longer than 4 MiB"},
		"an end signed for another head": {signedEnd(t, unsigned, checkpoint), "signed for another end"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := found([]byte(tc.file), "acme", keys); !strings.Contains(got, tc.want) {
				t.Errorf("Read = %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("an end signed with an unknown key", func(t *testing.T) {
		if got := found([]byte(good), "acme", audit.MakeKeys(signer(t, 2).Public())); !strings.Contains(got,
			"not trusted") {
			t.Errorf("Read = %q, want a key that is not trusted", got)
		}
	})
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func entryOf(line string) string {
	return strings.TrimSuffix(strings.TrimPrefix(line, `{"entry":`), "}\n")
}

// endOf returns the last line of an export with as many lines, of another chain.
func endOf(t *testing.T, s *audit.Signer) string {
	t.Helper()
	c := chain("acme", 2)
	c = append(c, forge(c[1], "forged"))
	file := string(export(t, c, audit.Extract{
		From: audit.Head{Org: "acme"}, Checkpoints: []audit.Checkpoint{s.Sign(c[1].Head(), day)},
	}))
	return file[strings.Index(file, `{"end":`):]
}

func signedEnd(t *testing.T, file string, c audit.Checkpoint) string {
	t.Helper()
	before, ok := strings.CutSuffix(file, "}}}\n")
	if !ok {
		t.Fatalf("the export ends with %q", file[len(file)-20:])
	}
	return before + `},"signed":` + marshal(t, c) + "}}\n"
}

func TestRead_says_up_to_where_it_is_signed(t *testing.T) {
	s, c := signer(t, 1), chain("acme", 4)
	keys := audit.MakeKeys(s.Public())
	for name, tc := range map[string]struct {
		x    audit.Extract
		want int64
	}{
		"not":                {audit.Extract{}, 0},
		"up to a checkpoint": {audit.Extract{Keys: keys, Checkpoints: []audit.Checkpoint{s.Sign(c[1].Head(), day)}}, 2},
		"to the end":         {audit.Extract{Signer: s}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			tc.x.From = audit.Head{Org: "acme"}
			report, err := audit.Read(bytes.NewReader(export(t, c, tc.x)), "acme", keys, nil, nil)
			if err != nil || !report.Sound() || report.Signed != tc.want {
				t.Errorf("report = %+v, %v, want signed up to %d", report, err, tc.want)
			}
		})
	}
}

func TestExport_writes_a_broken_chain_and_does_not_sign_it(t *testing.T) {
	s, c := signer(t, 1), chain("acme", 4)
	c[1].Tool = "rm"
	var file bytes.Buffer
	x := audit.Extract{From: audit.Head{Org: "acme"},
		Checkpoints: []audit.Checkpoint{s.Sign(audit.Head{Org: "acme", Seq: 9, Hash: "x"}, day)}, Signer: s}
	report, err := audit.Export(&file, each(c), x)
	if err != nil || report.Sound() || report.Signed != 0 {
		t.Fatalf("Export = %+v, %v, want problems", report, err)
	}
	if strings.Contains(file.String(), `"signed"`) {
		t.Error("the end of a broken chain is signed")
	}
	got := found(file.Bytes(), "acme", audit.MakeKeys(s.Public()))
	if want := "entry 2 was changed"; !strings.Contains(got, want) || !strings.Contains(got, "up to entry 9") {
		t.Errorf("Read = %q, want %q and the cut found", got, want)
	}
}

func TestExport_stops_at_the_first_error(t *testing.T) {
	broken := errors.New("gone")
	c := chain("acme", 2)
	x := audit.Extract{From: audit.Head{Org: "acme"}}
	if _, err := audit.Export(&failing{err: broken}, each(c), x); !errors.Is(err, broken) {
		t.Errorf("Export to a broken writer = %v, want %v", err, broken)
	}
	_, err := audit.Export(&bytes.Buffer{}, func(yield func(audit.Entry, error) bool) { yield(audit.Entry{}, broken) },
		x)
	if !errors.Is(err, broken) {
		t.Errorf("Export of what cannot be read = %v, want %v", err, broken)
	}
	if _, err := audit.Read(iotest.ErrReader(broken), "acme", nil, nil, nil); !errors.Is(err, broken) {
		t.Errorf("Read = %v, want %v", err, broken)
	}
	visit := func(audit.Entry) error { return broken }
	if _, err := audit.Read(bytes.NewReader(export(t, c, x)), "acme", nil, nil, visit); !errors.Is(err, broken) {
		t.Errorf("Read with a visitor that fails = %v, want %v", err, broken)
	}
	if _, err := audit.Export(&bytes.Buffer{}, each(c), audit.Extract{}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Export of nobody's chain = %v, want %s", err, haft.CodeInvalid)
	}
}

type failing struct{ err error }

func (f *failing) Write([]byte) (int, error) { return 0, f.err }

func TestExport_line_of_the_greatest_length_reads_back(t *testing.T) {
	body := func(n int) audit.Entry {
		e := full()
		e.Body = json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
		return audit.Link(audit.Genesis("acme"), e)
	}
	x := audit.Extract{From: audit.Head{Org: "acme"}}
	small := export(t, []audit.Entry{body(2)}, x)
	rest := bytes.Index(small[bytes.IndexByte(small, '\n')+1:], []byte("\n")) + 1 - 2
	longest := audit.MaxLine - rest
	if got := found(export(t, []audit.Entry{body(longest)}, x), "acme", nil); got != "" {
		t.Errorf("Read = %q", got)
	}
	_, err := audit.Export(&bytes.Buffer{}, each([]audit.Entry{body(longest + 1)}), x)
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Export of a longer line = %v, want %s", err, haft.CodeInvalid)
	}
}

func FuzzRead(f *testing.F) {
	s := signer(f, 1)
	keys := audit.MakeKeys(s.Public())
	c := chain("acme", 3)
	file := export(f, c, audit.Extract{
		From: audit.Head{Org: "acme"}, Checkpoints: []audit.Checkpoint{s.Sign(c[1].Head(), day)}, Signer: s, Time: day,
	})
	f.Add(file)
	f.Add(export(f, c[1:], audit.Extract{From: c[0].Head()}))
	f.Add([]byte(fmt.Sprintf(`{"header":{"format":%q,"from":{"org":"acme","seq":9,"hash":"x"}}}`+"\n", audit.Format)))
	f.Fuzz(func(t *testing.T, file []byte) {
		var entries []audit.Entry
		report, err := audit.Read(bytes.NewReader(file), "acme", keys, nil, func(e audit.Entry) error {
			entries = append(entries, e)
			return nil
		})
		if err != nil {
			return
		}
		if report.Entries != int64(len(entries)) {
			t.Errorf("%d entries reported and %d visited", report.Entries, len(entries))
		}
		if !report.Sound() {
			return
		}
		// What Read believes, Verify does too.
		again, err := audit.Verify(each(entries), nil, nil, report.From)
		if err != nil || !again.Sound() || again.Head != report.Head {
			t.Errorf("Verify = %+v, %v, and Read = %+v", again, err, report)
		}
	})
}
