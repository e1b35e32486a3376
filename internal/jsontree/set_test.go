package jsontree_test

import (
	"encoding/json"
	"testing"

	"haft/internal/jsontree"
)

func TestSet(t *testing.T) {
	for _, c := range []struct {
		path []string
		want string
	}{
		{[]string{"a"}, `{"a":"new","b":[1,{"c":2}]}`},
		{[]string{"b", "0"}, `{"a":"old","b":["new",{"c":2}]}`},
		{[]string{"b", "1", "c"}, `{"a":"old","b":[1,{"c":"new"}]}`},
		{[]string{"b", "2"}, ""}, {[]string{"b", "-1"}, ""}, {[]string{"d"}, ""}, {[]string{"a", "x"}, ""}, {nil, ""},
	} {
		const before = `{"a":"old","b":[1,{"c":2}]}`
		tree, err := jsontree.Decode([]byte(before), jsontree.Limits{Bytes: 100, Depth: 9})
		if err != nil {
			t.Fatal(err)
		}
		if did := jsontree.Set(tree, c.path, "new"); did != (c.want != "") {
			t.Errorf("%q: got %v", c.path, did)
		}
		if c.want == "" {
			c.want = before
		}
		if got, err := json.Marshal(tree); err != nil || string(got) != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.path, got, err, c.want)
		}
	}
}
