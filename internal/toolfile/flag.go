package toolfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"haft"
	"haft/internal/jsontree"
	"haft/schema"
)

// Prefixes reads the ranges of addresses of a flag.
func Prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, wrong(fmt.Errorf("%s is a range of addresses, such as 10.0.0.0/8", flag))
		}
		all = append(all, p)
	}
	return all, nil
}

// Pairs reads flags of the form K=V.
func Pairs(flag string, list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, wrong(fmt.Errorf("%s is K=V: it does not begin with a name and =", flag))
		}
		m[k] = v
	}
	return m, nil
}

// ReadGiven reads a text that a flag gives: @FILE, - for standard input, or the text itself.
func ReadGiven(in io.Reader, text string) (raw []byte, err error) {
	switch name, isFile := strings.CutPrefix(text, "@"); {
	case text == "-":
		raw, err = io.ReadAll(io.LimitReader(in, schema.MaxBytes+1))
	case isFile:
		raw, err = ReadBounded(name, schema.MaxBytes)
	default:
		return []byte(text), nil
	}
	if err != nil {
		return nil, wrong(fmt.Errorf("read the arguments: %w", err))
	}
	return raw, nil
}

// ReadDocument reads the JSON that a flag gives into v. It refuses unknown fields.
func ReadDocument(in io.Reader, flag, text string, v any) error {
	raw, err := ReadGiven(in, text)
	if err != nil {
		return err
	}
	if _, err := schema.Decode(raw); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: flag + " cannot be read: " + err.Error(), Err: err}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: flag + " cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return nil
}

// CheckJSON reports where a document that a flag gives is not JSON.
func CheckJSON(flag string, text []byte) error {
	_, err := schema.Decode(text)
	if e, ok := errors.AsType[*schema.SyntaxError](err); ok && !json.Valid(text) {
		line, column := jsontree.Position(text, e.Offset)
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the arguments are not JSON: %s, line %d, "+
			"column %d: %s", flag, line, column, e.Message)}
	}
	return nil // another mistake is one of the arguments, which the call reports
}

// SettingOf returns what a flag of haft tool add sets, as [haft.Draft.Named] calls it.
func SettingOf(flag string) string {
	other := map[string]string{"timeout": "limits.wall_ms", "grace": "limits.grace_ms", "memory": "limits.memory_bytes",
		"secret": "secrets", "program": "programs", "for-role": "roles", "cache-for": "cache_ms",
		"output": "output.type", "validator": "output.validators", "max-chars": "output.max_chars",
		"requirement": "requirements", "file": "files"}
	return cmp.Or(other[flag], strings.ReplaceAll(flag, "-", "_"))
}

// NotEmpty returns a list without its empty entries: --secret "" names none.
func NotEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
}
