package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"haft"
	"haft/internal/toolfile"
	"haft/schema"
)

// prefixes reads the ranges of addresses of a flag.
func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, usage(fmt.Errorf("%s is a range of addresses, such as 10.0.0.0/8", flag))
		}
		all = append(all, p)
	}
	return all, nil
}

// pairs reads flags of the form K=V.
func pairs(flag string, list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usage(fmt.Errorf("%s is K=V", flag))
		}
		m[k] = v
	}
	return m, nil
}

// readGiven reads a text that a flag gives: @FILE, - for standard input, or the text itself.
func readGiven(in io.Reader, text string) (raw []byte, err error) {
	switch name, isFile := strings.CutPrefix(text, "@"); {
	case text == "-":
		raw, err = io.ReadAll(io.LimitReader(in, schema.MaxBytes+1))
	case isFile:
		raw, err = toolfile.ReadBounded(name, schema.MaxBytes)
	default:
		return []byte(text), nil
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read the arguments: %w", err))
	}
	return raw, nil
}

// readDocument reads the JSON that a flag gives into v. It refuses unknown fields.
func readDocument(in io.Reader, flag, text string, v any) error {
	raw, err := readGiven(in, text)
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

// withOutput calls write with the file of --output, or with standard output if none is named.
func (p *profile) withOutput(name string, write func(io.Writer) error) (err error) {
	if name == "" {
		return write(p.out)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return usage(fmt.Errorf("write the export: %w", err))
	}
	return errors.Join(write(file), file.Close())
}
