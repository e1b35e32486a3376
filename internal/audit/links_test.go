package audit_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"haft/internal/audit"
)

// chained signs the given entries of c, each after the one before.
func chained(s *audit.Signer, c []audit.Entry, at ...int) []audit.Checkpoint {
	var list []audit.Checkpoint
	var last audit.Mark
	var tip audit.Tip
	for _, i := range at {
		p := s.SignAfter(c[i-1].Head(), last, tip, day)
		list, last, tip = append(list, p), p.Mark(), p.Tip()
	}
	return list
}

// marksOf returns the marks of checkpoints.
func marksOf(list ...audit.Checkpoint) []audit.Mark {
	var marks []audit.Mark
	for _, c := range list {
		marks = append(marks, c.Mark())
	}
	return marks
}

func TestVerify_chained_checkpoints(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	c := chain("acme", 8)
	good := chained(s, c, 2, 4, 6, 8)
	forged := slices.Clone(c)
	for i := 3; i < len(forged); i++ {
		forged[i] = forge(forged[i-1], "forged")
	}
	edited := slices.Clone(good)
	edited[1].Time = edited[1].Time.Add(time.Second)
	replayed := slices.Clone(good)
	replayed[2] = good[1]
	unplaced := slices.Clone(good)
	unplaced[1] = s.Sign(c[3].Head(), day)
	restored := s.SignLoss(c[5].Head(), good[0].Mark(), good[3].Mark(), good[0].Tip(), good[3].Tip(), day)
	quiet := s.SignAfter(c[5].Head(), good[0].Mark(), good[0].Tip(), day) // the same without a word

	for name, tc := range map[string]struct {
		entries []audit.Entry
		points  []audit.Checkpoint
		marks   []audit.Mark
		want    []audit.Kind
		warn    []audit.Kind
	}{
		"as it was written":          {c, good, marksOf(good...), nil, nil},
		"in another order":           {c, []audit.Checkpoint{good[3], good[0], good[2], good[1]}, nil, nil, nil},
		"more entries than the head": {c, good[:2], marksOf(good[1]), nil, nil},
		"one left out": {c, slices.Delete(slices.Clone(good), 1, 2), nil,
			[]audit.Kind{audit.Unchained}, nil},
		"the first left out": {c, good[1:], nil, []audit.Kind{audit.Unchained}, nil},
		"one twice": {c, append(slices.Clone(good), good[1]), nil,
			[]audit.Kind{audit.Unchained}, nil},
		"one changed":                       {c, edited, nil, []audit.Kind{audit.BadSignature, audit.Unchained}, nil},
		"one replayed":                      {c, replayed, nil, []audit.Kind{audit.Unchained, audit.Unchained}, nil},
		"one replaced by one without place": {c, unplaced, nil, []audit.Kind{audit.Unchained}, nil},
		"rewritten, later ones deleted":     {forged, good[:1], marksOf(good[3]), []audit.Kind{audit.HeadMissing}, nil},
		"rewritten, all deleted":            {forged, nil, marksOf(good[3]), []audit.Kind{audit.HeadMissing}, nil},
		"rewritten and longer": {append(slices.Clone(forged), forge(forged[7], "forged")), good[:1],
			marksOf(good[3]), []audit.Kind{audit.HeadMissing}, nil},
		"cut off with its checkpoints":  {c[:5], good[:2], marksOf(good[3]), []audit.Kind{audit.Truncated}, nil},
		"all gone":                      {nil, nil, marksOf(good[3]), []audit.Kind{audit.Truncated}, nil},
		"only the last checkpoint gone": {c, good[:3], marksOf(good[3]), []audit.Kind{audit.HeadMissing}, nil},
		"put back on purpose": {c[:6], []audit.Checkpoint{good[0], restored}, marksOf(good[3], restored),
			nil, []audit.Kind{audit.Restored}},
		"put back in silence, and signed": {c[:6], []audit.Checkpoint{good[0], quiet}, marksOf(good[1], quiet),
			[]audit.Kind{audit.HeadMissing}, nil},
		"a mark of another organisation": {c, good, []audit.Mark{{Org: "other", Seq: 99, Checkpoint: "x"}}, nil,
			nil},
		"a mark with the number of another": {c, good,
			[]audit.Mark{{Org: "acme", Seq: 8, Number: 3, Hash: c[7].Hash, Checkpoint: good[3].ID()}},
			[]audit.Kind{audit.HeadMissing}, nil},
		"checkpoints that go back in numbers": {c,
			[]audit.Checkpoint{good[0], s.SignAfter(c[0].Head(), good[0].Mark(), good[0].Tip(), day)}, nil,
			[]audit.Kind{audit.Unchained, audit.Unchained}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := audit.VerifyMarks(each(tc.entries), tc.points, keys, audit.Head{Org: "acme"}, tc.marks)
			if err != nil {
				t.Fatal(err)
			}
			if p := kinds(got.Problems); !slices.Equal(p, tc.want) {
				t.Errorf("problems = %v, want %v", got.Problems, tc.want)
			}
			if w := kinds(got.Warnings); !slices.Equal(w, tc.warn) {
				t.Errorf("warnings = %v, want %v", got.Warnings, tc.warn)
			}
			// An export says the same to whoever reads it.
			var file bytes.Buffer
			wrote, err := audit.Export(&file, each(tc.entries),
				audit.Extract{From: audit.Head{Org: "acme"}, Checkpoints: tc.points, Keys: keys, Signer: s, Time: day,
					Marks: tc.marks})
			if err != nil || wrote.Sound() != (tc.want == nil) {
				t.Fatalf("Export = %v, %v", wrote.Problems, err)
			}
			if strings.Contains(file.String(), `"signed"`) != wrote.Sound() {
				t.Errorf("signed although it is not sound, or not signed although it is:\n%s", file.String())
			}
			read, err := audit.Read(&file, "acme", keys, tc.marks, nil)
			if name == "a mark of another organisation" {
				return // it would be in the header
			}
			if err != nil || read.Sound() != wrote.Sound() {
				t.Errorf("Read = %v, %v", read.Problems, err)
			}
		})
	}
}

func kinds(list []audit.Problem) []audit.Kind {
	var all []audit.Kind
	for _, p := range list {
		all = append(all, p.Kind)
	}
	return all
}

func TestHeads_are_signed(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	c := chain("acme", 4)
	p := chained(s, c, 2, 4)
	other := audit.Mark{Org: "other", Seq: 1, Hash: "h", Number: 1, Checkpoint: "c"}
	h := s.SignHeads(p[1].Tip(), []audit.Mark{other, p[1].Mark()}, day)
	data, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.ParseHeads(data, keys)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := got.Find("acme"); !ok || m != p[1].Mark() || got.Tip != p[1].Tip() {
		t.Errorf("ParseHeads = %+v", got)
	}
	for name, change := range map[string]func(*audit.Heads){
		"one organisation left out": func(h *audit.Heads) { h.Marks = h.Marks[:1] },
		"none":                      func(h *audit.Heads) { h.Marks = nil },
		"an older entry":            func(h *audit.Heads) { h.Marks[0].Seq-- },
		"another hash":              func(h *audit.Heads) { h.Marks[0].Hash = "x" },
		"another number":            func(h *audit.Heads) { h.Marks[0].Number-- },
		"another serial":            func(h *audit.Heads) { h.Tip.Serial-- },
		"another checkpoint":        func(h *audit.Heads) { h.Tip.Checkpoint = "x" },
		"another time":              func(h *audit.Heads) { h.Time = h.Time.Add(time.Second) },
		"another key":               func(h *audit.Heads) { h.Key = signer(t, 2).ID() },
		"another format":            func(h *audit.Heads) { h.Format = "haft-audit-heads-2" },
		"no signature":              func(h *audit.Heads) { h.Signature = nil },
	} {
		bad, err := audit.ParseHeads(data, keys)
		if err != nil {
			t.Fatal(err)
		}
		change(&bad)
		text, err := bad.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := audit.ParseHeads(text, keys); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// What a sink has is believed line by line: each one must be in the log, not only the last.
func TestReadMarks_of_a_sink(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	c := chain("acme", 8)
	p := chained(s, c, 2, 4, 6, 8)
	line := func(c audit.Checkpoint) string {
		text, err := json.Marshal(audit.CheckpointLine{Checkpoint: &c})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	foreign := signer(t, 2).SignAfter(audit.Head{Org: "other", Seq: 1, Hash: "x"}, audit.Mark{}, audit.Tip{}, day)
	sink := line(p[0]) + line(foreign) + line(p[1]) + `{"checkpoint":{"org":"ac` + "\n" + line(p[2])
	marks, err := audit.ReadMarks(strings.NewReader(sink), "acme", keys)
	if err != nil || !slices.Equal(marks, marksOf(p[:3]...)) {
		t.Fatalf("ReadMarks = %v, %v", marks, err)
	}
	// The whole of it was put back to an earlier moment, and went on from there.
	fork := s.SignAfter(c[5].Head(), p[0].Mark(), p[0].Tip(), day)
	later := s.SignAfter(c[7].Head(), fork.Mark(), fork.Tip(), day)
	marks, err = audit.ReadMarks(strings.NewReader(sink+line(fork)+line(later)), "acme", keys)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := audit.VerifyMarks(each(c), []audit.Checkpoint{p[0], fork, later}, keys, audit.Head{Org: "acme"}, marks)
	if err != nil || rep.Sound() {
		t.Errorf("a fork of the log was not found: %v", err)
	}
	p[0].Seq = 3
	for name, text := range map[string]string{
		"nothing": "", "of others only": line(foreign), "something else": "{}\n", "not JSON": "hello\n",
		"a changed line":     line(p[0]),
		"signed by somebody": line(signer(t, 2).SignAfter(c[1].Head(), audit.Mark{}, audit.Tip{}, day)),
	} {
		if _, err := audit.ReadMarks(strings.NewReader(text), "acme", keys); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
