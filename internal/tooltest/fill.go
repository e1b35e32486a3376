package tooltest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"haft"
	"haft/schema"
)

// reference finds ${steps.NAME.value.x}.
var reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{steps\.([^}]{1,500})\}`) })

// fillSteps replaces references to steps in the texts of a JSON document.
func fillSteps(args json.RawMessage, results map[string]*haft.Result) (json.RawMessage, error) {
	raw, err := json.Marshal(results)
	if err != nil {
		return nil, fmt.Errorf("read the results of steps: %w", err)
	}
	steps, err := schema.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("read the results of steps: %w", err)
	}
	tree, err := schema.Decode(args)
	if err != nil {
		return args, nil //nolint:nilerr // arguments that are no JSON are sent as they are
	}
	filled, err := fillValue(tree, steps)
	if err != nil {
		return nil, err
	}
	return schema.Encode(filled)
}

// fillValue replaces references in a value.
func fillValue(v, steps any) (_ any, err error) {
	switch x := v.(type) {
	case *schema.Object:
		out := schema.Obj()
		for _, key := range x.Keys() {
			item, err := fillValue(x.Value(key), steps)
			if err != nil {
				return nil, err
			}
			out.Set(key, item)
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i := range x {
			if out[i], err = fillValue(x[i], steps); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		return fillText(x, steps)
	}
	return v, nil
}

// fillText replaces references in a text. One that is the whole text becomes the value.
func fillText(text string, steps any) (any, error) {
	if m := reference().FindStringSubmatch(text); m != nil && m[0] == text {
		return lookUp(steps, m[1])
	}
	var failed error
	out := reference().ReplaceAllStringFunc(text, func(found string) string {
		v, err := lookUp(steps, reference().FindStringSubmatch(found)[1])
		if err != nil {
			failed = err
			return ""
		}
		if s, ok := v.(string); ok {
			return s
		}
		return encode(v)
	})
	return out, failed
}

// lookUp finds a value by a path of names and indexes with dots between them.
func lookUp(v any, path string) (any, error) {
	for i, name := range strings.Split(path, ".") {
		switch x := v.(type) {
		case *schema.Object:
			if x.Has(name) {
				v = x.Value(name)
				continue
			}
		case []any:
			var n int
			if _, err := fmt.Sscan(name, &n); err == nil && n >= 0 && n < len(x) {
				v = x[n]
				continue
			}
		}
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("${steps.%s}: there is no %s (part %d)", path, name, i+1)}
	}
	return v, nil
}
