package letta_test

import (
	"fmt"
	"strings"
	"testing"
)

// A page ends after some MiB, whatever its limit is, and the rest comes with the next one.
func TestPages_are_bounded(t *testing.T) {
	w := setup(t)
	var ids []string
	for i := range 12 { // more than one list of the store has
		b := must[block](w, 200, "POST", "/blocks/", fmt.Sprintf(`{"label":"b%02d","limit":1000000,"value":%q}`, i,
			strings.Repeat("x", 1_000_000)))
		ids = append(ids, `"`+b.ID+`"`)
	}
	for i := range 3 {
		a := must[agent](w, 200, "POST", "/agents/", fmt.Sprintf(
			`{"name":"a%d","block_ids":[%s],"include_base_tools":false}`, i, strings.Join(ids, ",")))
		if len(a.Blocks) != 12 {
			t.Errorf("an agent with 12 blocks shows %d", len(a.Blocks))
		}
	}
	for _, path := range []string{"/agents/?limit=1000&order=asc", "/blocks/" + strings.Trim(ids[0], `"`) +
		"/agents?limit=1000&order=asc"} {
		names := ""
		for after := ""; len(names) < 10; {
			r := w.ask(reader, "GET", path+after, "")
			if len(r.body) > 20<<20 {
				t.Errorf("%s: a page of %d bytes", path, len(r.body))
			}
			page := must[[]agent](w, 200, "GET", path+after, "")
			if len(page) == 0 {
				break
			}
			for _, a := range page {
				names += a.Name + " "
			}
			after = "&after=" + page[len(page)-1].ID
		}
		if names != "a0 a1 a2 " {
			t.Errorf("%s: %s", path, names)
		}
	}
	last := must[[]agent](w, 200, "GET", "/agents/?order=asc&limit=3", "")[0].ID
	for path, most := range map[string]int{"/blocks/?order=asc": 9, "/blocks/?order=desc": 9,
		"/agents/" + last + "/core-memory/blocks": 9} {
		if list := must[[]block](w, 200, "GET", path, ""); len(list) == 0 || len(list) > most {
			t.Errorf("%s: %d blocks", path, len(list))
		}
	}
	if r := w.ask(reader, "GET", "/agents/count", ""); r.body != "3\n" {
		t.Errorf("count: %s", r.body)
	}
	if a := must[agent](w, 200, "PATCH", "/agents/"+last, `{"block_ids":[`+ids[0]+`]}`); labels(a.Blocks) != "b00" {
		t.Errorf("one block is left: %s", labels(a.Blocks))
	}
}
