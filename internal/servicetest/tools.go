package servicetest

import (
	"fmt"
	"slices"

	"haft"
)

// names are those of tools, without the built-in ones.
func names(tools []haft.Tool) []string {
	list := []string{}
	for _, t := range tools {
		if t.Version.Kind != haft.KindBuiltin {
			list = append(list, t.Name)
		}
	}
	return list
}

func (w *world) tools() {
	s, ctx := w.as(w.T, Admin), w.Context()
	d := draft("echo", "echo")
	d.Category, d.Tags = "letters", []string{"a", "b"}
	c, err := s.PutTool(ctx, Admin, d)
	w.must("put", err)
	if !c.Created || c.Same || c.Tool.Version.Number != 1 || c.Tool.Org != "acme" || c.Tool.Category != "letters" {
		w.Errorf("put: %+v", c)
	}
	again, err := s.PutTool(ctx, Admin, d)
	w.must("put again", err)
	if again.Created || !again.Same || again.Tool.ID != c.Tool.ID {
		w.Errorf("put again: %+v", again)
	}
	d.New = true
	_, err = s.PutTool(ctx, Admin, d)
	w.code("a new one that is there", err, haft.CodeConflict)
	d.New, d.Description = false, "Another text."
	d.Parameters = []byte(
		`{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"string"}},"required":["y"]}`)
	two, err := s.PutTool(ctx, Admin, d)
	w.must("a second version", err)
	if two.Tool.Version.Number != 2 || len(two.Schema) == 0 {
		w.Errorf("a second version: %+v", two)
	}
	d.If, d.Description = c.Tool.Version.Digest, "A third."
	_, err = s.PutTool(ctx, Admin, d)
	w.code("of what it was", err, haft.CodeConflict)
	byID, err := s.Tool(ctx, Admin, string(c.Tool.ID))
	w.must("by id", err)
	if byID.Name != "echo" || byID.Version.Number != 2 ||
		string(byID.Version.Parameters) != string(two.Tool.Version.Parameters) {
		w.Errorf("by id: %+v", byID)
	}
	numbers := []int{}
	for _, v := range all(w, "versions", s.Versions(ctx, Admin, "echo")) {
		numbers = append(numbers, v.Number)
	}
	if !slices.Equal(numbers, []int{2, 1}) {
		w.Errorf("versions: %v", numbers)
	}
	one, off := 1, true
	back, err := s.SetTool(ctx, Admin, "echo", haft.ToolState{Version: &one, Disabled: &off})
	w.must("roll back and disable", err)
	if back.Version.Number != 1 || !back.Disabled {
		w.Errorf("rolled back: %+v", back)
	}
	if got := names(all(w, "list", s.Tools(ctx, Admin, haft.ToolFilter{}))); len(got) != 0 {
		w.Errorf("disabled tools are listed: %v", got)
	}
	if got := names(
		all(w, "list",
			s.Tools(ctx, Admin, haft.ToolFilter{Disabled: true, Tag: "b", Category: "letters",
				Kind: haft.KindPython}))); !slices.Equal(got, []string{"echo"}) {
		w.Errorf("all that fit: %v", got)
	}
	_, err = s.SetTool(ctx, Admin, "echo", haft.ToolState{Disabled: &off, If: "other"})
	w.code("set another revision", err, haft.CodeConflict)
	w.code("remove another revision", s.RemoveTool(ctx, Admin, "echo", "other"), haft.CodeConflict)
	w.must("remove", s.RemoveTool(ctx, Admin, "echo", back.Revision()))
	_, err = s.Tool(ctx, Admin, "echo")
	w.code("after it was removed", err, haft.CodeNotFound)
	for _, who := range []haft.Principal{Ann, Approver} {
		_, err = w.as(w.T, who).PutTool(ctx, who, draft("mine", "echo"))
		w.code("put by "+who.User, err, haft.CodeDenied)
	}
	for name, bad := range map[string]haft.Draft{
		"no source": {Name: "x", Kind: haft.KindPython}, "a bad name": draft("a b", "echo"),
		"a long name": draft(fmt.Sprintf("%0100d", 1), "echo"),
	} {
		_, err = s.PutTool(ctx, Admin, bad)
		w.code(name, err, haft.CodeInvalid)
	}
}

func (w *world) noTools() {
	s, ctx := w.as(w.T, Admin), w.Context()
	w.put(draft("echo", "echo"))
	one := 7
	for _, ref := range []string{"nothing", "", ".", "..", "a/b", "%2e", "echo/versions", "echo?x", "é"} {
		_, err := s.Tool(ctx, Admin, ref)
		w.code(fmt.Sprintf("the tool %q", ref), err, haft.CodeNotFound)
		w.code(fmt.Sprintf("the versions of %q", ref), first(s.Versions(ctx, Admin, ref)), haft.CodeNotFound)
		_, err = s.SetTool(ctx, Admin, ref, haft.ToolState{})
		w.code(fmt.Sprintf("set %q", ref), err, haft.CodeNotFound)
		w.code(fmt.Sprintf("remove %q", ref), s.RemoveTool(ctx, Admin, ref, ""), haft.CodeNotFound)
		_, err = s.Agent(ctx, Admin, ref)
		w.code(fmt.Sprintf("the agent %q", ref), err, haft.CodeNotFound)
		_, err = s.Record(ctx, Admin, haft.CallID(ref))
		w.code(fmt.Sprintf("the call %q", ref), err, haft.CodeNotFound)
		_, err = s.Chain(ctx, Admin, haft.ChainID(ref))
		w.code(fmt.Sprintf("the chain %q", ref), err, haft.CodeNotFound)
		_, err = s.Replay(ctx, Admin, haft.CallID(ref))
		w.code(fmt.Sprintf("replay %q", ref), err, haft.CodeNotFound)
		_, err = s.Decide(ctx, Admin, haft.ApprovalID(ref), haft.Answer{})
		w.code(fmt.Sprintf("decide %q", ref), err, haft.CodeNotFound)
		w.code(fmt.Sprintf("cancel %q", ref), s.Cancel(ctx, Admin, haft.CallID(ref)), haft.CodeNotFound)
	}
	_, err := s.SetTool(ctx, Admin, "echo", haft.ToolState{Version: &one})
	w.code("a version that is not there", err, haft.CodeNotFound)
}

func (w *world) manyTools() {
	s, ctx := w.as(w.T, Admin), w.Context()
	want := []string{}
	for i := range 25 {
		name := fmt.Sprintf("tool_%02d", i)
		w.put(draft(name, "echo"))
		want = append(want, name)
	}
	if got := names(all(w, "all", s.Tools(ctx, Admin, haft.ToolFilter{}))); !slices.Equal(got, want) {
		w.Errorf("all: %v", got)
	}
	if got := names(all(w, "some", s.Tools(ctx, Admin, haft.ToolFilter{After: "tool_04", Limit: 3}))); !slices.Equal(
		got, want[5:8]) {
		w.Errorf("three after the fifth: %v", got)
	}
	if got := names(all(w, "search", s.Tools(ctx, Admin, haft.ToolFilter{Search: "tool_07"}))); len(got) == 0 ||
		got[0] != "tool_07" {
		w.Errorf("search: %v", got)
	}
	taken := 0
	for range s.Tools(ctx, Admin, haft.ToolFilter{}) {
		if taken++; taken == 2 {
			break // a list that is left is left
		}
	}
}
