package chain

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// The bounds on references.
const (
	MaxReferences = 1000 // of a plan
	maxReference  = 1000 // bytes of one
)

// stepID is what a step may be called: what CEL can name too.
var stepID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`) })

// reference is what stands for a value of a step or of the input.
type reference struct {
	text string   // as it is written
	step string   // "" means the input
	part string   // value, error, status, stdout or stderr
	way  []string // the parts of the pointer
	// def is taken where there is nothing; nil means that there is no default.
	def json.RawMessage
}

// parseReference reads the text of a reference.
func parseReference(text string) (reference, error) {
	r := reference{text: text}
	if len(text) > maxReference {
		return r, wrong("a reference has %d bytes, %d is the most", len(text), maxReference)
	}
	head, pointer, deep := strings.Cut(text, "/")
	if head != "input" {
		var ok bool
		if r.step, r.part, ok = strings.Cut(head, "."); !ok || !stepID().MatchString(r.step) {
			return r, wrong("the reference %q begins neither with input nor with the id of a step and what is taken "+
				"of it, such as id.value", short(text))
		}
		switch r.part {
		case "value", "error":
		case "status", "stdout", "stderr":
			if deep {
				return r, wrong("the reference %q has a pointer, but %s is a text", short(text), r.part)
			}
		default:
			return r, wrong("the reference %q takes neither value, error, status, stdout nor stderr of the step",
				short(text))
		}
	}
	if !deep {
		return r, nil
	}
	r.way = strings.Split(pointer, "/")
	for i, p := range r.way {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(p); strings.Contains(rest, "~") {
			return r, wrong("the reference %q: in a JSON Pointer ~ is written ~0 and / is written ~1", short(text))
		}
		r.way[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	if len(r.way) > maxDepth {
		return r, wrong("the reference %q points deeper than %d", short(text), maxDepth)
	}
	return r, nil
}

// short makes a text of the plan's author fit for a message.
func short(text string) string {
	const most = 100
	out := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if len(out) > most {
		return string(out[:most]) + "…"
	}
	return string(out)
}
