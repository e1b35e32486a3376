package schema_test

import (
	"strings"
	"testing"

	"haft/schema"
)

func TestFit_as_Python(t *testing.T) {
	c := compiled(t, `{"type":"object","properties":{"s":{"type":"string"},"b":{"type":"boolean"},
		"l":{"type":"array"},"o":{"type":["object","null"]},"u":{"type":["string","boolean"]}}}`)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for args, want := range map[string]string{
		`{"s":1.10}`:                          `{"s":"1.10"}`,
		`{"s":true}`:                          `{"s":"True"}`,
		`{"s":[1]}`:                           "",
		`{"b":1}`:                             `{"b":true}`,
		`{"b":1.5}`:                           "",
		`{"b":2}`:                             "",
		`{"l":"[1, {'a': 5}]"}`:               `{"l":[1,{"a":5}]}`,
		`{"l":"(True, False, None,)"}`:        `{"l":[true,false,null]}`,
		`{"l":"['it\\'s', \"a'b\", 'c\"d']"}`: `{"l":["it's","a'b","c\"d"]}`,
		`{"l":"['\\x41']"}`:                   "",
		`{"l":"[Trueish]"}`:                   "",
		`{"l":"[open('x')]"}`:                 "",
		`{"l":"['a"}`:                         "",
		`{"l":"{'a': 1}"}`:                    "",
		`{"l":"` + deep + `"}`:                "",
		`{"o":"{'a': {'b': (1, 2)}}"}`:        `{"o":{"a":{"b":[1,2]}}}`,
		`{"u":5}`:                             "", // two types remain
	} {
		o, err := schema.ReadArguments([]byte(args))
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		got := ""
		if out, misfits := c.Fit(o, schema.FitOptions{Python: true}); misfits == nil {
			got = textOf(t, out)
		}
		if got != want {
			t.Errorf("%.80s becomes %s, want %s", args, got, want)
		}
		if out, misfits := c.Fit(o, schema.FitOptions{}); misfits == nil {
			t.Errorf("%.80s fits without Python: %s", args, textOf(t, out))
		}
	}
}
