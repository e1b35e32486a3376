// Package mcpcatalog finds MCP servers in catalogues of the official registry's format (server.json), in
// a file or at an address, and makes of an entry a server that Haft runs in its sandbox.
package mcpcatalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/internal/bounds"
)

// The bounds of a catalogue.
const (
	MaxCatalogue = 8 << 20 // bytes of a file or of an answer
	maxEntries   = 20_000
	pageSize     = 100
	maxPages     = 20
)

// An Entry is a server of a catalogue, as its author describes it.
type Entry struct {
	Name        string    `json:"name"`
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Version     string    `json:"version,omitempty"`
	Packages    []Package `json:"packages,omitempty"`
	Remotes     []Remote  `json:"remotes,omitempty"`
	// Status is what the registry says of it: active, deprecated or deleted; empty if it says nothing.
	Status string `json:"status,omitempty"`

	latest bool // the registry says that it is the newest version
}

// A Package is a program to install.
type Package struct {
	RegistryType    string `json:"registryType"`
	RegistryBaseURL string `json:"registryBaseUrl,omitempty"`
	Identifier      string `json:"identifier"`
	Version         string `json:"version,omitempty"`
	RuntimeHint     string `json:"runtimeHint,omitempty"`
	Transport       struct {
		Type string `json:"type"`
	} `json:"transport"`
	RuntimeArguments     []Argument `json:"runtimeArguments,omitempty"`
	PackageArguments     []Argument `json:"packageArguments,omitempty"`
	EnvironmentVariables []Input    `json:"environmentVariables,omitempty"`
}

// A Remote is the address of a server.
type Remote struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []Input          `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// An Input is a value that the author gives or that a person fills in.
type Input struct {
	Name        string           `json:"name,omitempty"`
	Description string           `json:"description,omitempty"`
	Value       string           `json:"value,omitempty"`
	Default     string           `json:"default,omitempty"`
	IsRequired  bool             `json:"isRequired,omitempty"`
	IsSecret    bool             `json:"isSecret,omitempty"`
	Variables   map[string]Input `json:"variables,omitempty"`
}

// An Argument is an argument of a program: positional, or named such as --port.
type Argument struct {
	Input
	Type      string `json:"type"`
	ValueHint string `json:"valueHint,omitempty"`
}

// Parse reads a catalogue: an answer of a registry, a list of entries or one server.json.
func Parse(raw []byte) ([]Entry, error) {
	list, _, err := parsePage(raw)
	return list, err
}

// parsePage also returns the cursor of the next page.
func parsePage(raw []byte) ([]Entry, string, error) {
	wrong := func(err error) ([]Entry, string, error) {
		return nil, "", &haft.Error{Code: haft.CodeInvalid, Message: "it is no catalogue of MCP servers: " +
			"a server.json, a list of them, or an answer of a registry with servers was expected", Err: err}
	}
	if len(raw) > MaxCatalogue {
		return wrong(fmt.Errorf("it has more than %d bytes", MaxCatalogue))
	}
	if err := bounds.Check(raw, bounds.Default(), nil); err != nil {
		return wrong(err)
	}
	var doc struct {
		wrapped
		Servers  []wrapped `json:"servers"`
		Metadata struct {
			NextCursor string `json:"nextCursor"`
		} `json:"metadata"`
	}
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		err = json.Unmarshal(raw, &doc.Servers)
	} else {
		err = json.Unmarshal(raw, &doc)
	}
	if err != nil {
		return wrong(err)
	}
	var list []Entry
	if e := doc.entry(); e.Name != "" {
		list = append(list, e)
	}
	for _, w := range doc.Servers {
		if e := w.entry(); e.Name != "" {
			list = append(list, e)
		}
	}
	if len(list) == 0 && doc.Servers == nil {
		return wrong(errors.New("there is no server in it"))
	}
	return list[:min(len(list), maxEntries)], doc.Metadata.NextCursor, nil
}

// wrapped is an entry as registries give it: in server, with what the registry says beside it, or bare in older ones.
type wrapped struct {
	Entry
	Server *Entry `json:"server"`
	Meta   struct {
		Official struct {
			Status string `json:"status"`
			Latest bool   `json:"isLatest"`
		} `json:"io.modelcontextprotocol.registry/official"`
	} `json:"_meta"`
}

// entry returns the entry.
func (w wrapped) entry() Entry {
	e := w.Entry
	if w.Server != nil {
		e = *w.Server
	}
	if said := w.Meta.Official; said.Status != "" {
		e.Status, e.latest = said.Status, said.Latest
	}
	return e
}

// Search returns the entries whose name, title or description has all words of a text, each server
// once, in the order of their names.
func Search(list []Entry, text string) []Entry {
	var found []Entry
	for _, e := range list {
		all := strings.ToLower(e.Name + " " + e.Title + " " + e.Description)
		if !slices.ContainsFunc(strings.Fields(strings.ToLower(text)), func(w string) bool {
			return !strings.Contains(all, w)
		}) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(found, func(a, b Entry) bool { return a.Name == b.Name && a.Version == b.Version })
}

// Find returns the entry of NAME or NAME@VERSION. Without a version it is the one that the registry calls the latest,
// or else the last one of the list.
func Find(list []Entry, ref string) (Entry, error) {
	name, version, _ := strings.Cut(ref, "@")
	var found *Entry
	for i := range list {
		e := &list[i]
		fits := e.Name == name && (version == "" || e.Version == version)
		if fits && (found == nil || version != "" || !found.latest) {
			found = e
		}
	}
	if found == nil {
		return Entry{}, notFound()
	}
	return *found, nil
}

func notFound() error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "the catalogue has no server of that name and version: look " +
		"for it with haft mcp-server search"}
}

// A Registry is a server that speaks the API of the official registry. It is asked over https except on this machine,
// and none of its redirects is followed.
type Registry struct {
	Client *http.Client
	URL    string
}

// Search asks for the newest versions of servers whose names have a text. It reports whether there are more than were
// asked for.
func (r Registry) Search(ctx context.Context, text string) (list []Entry, more bool, err error) {
	query := url.Values{"search": {text}, "version": {"latest"}, "limit": {strconv.Itoa(pageSize)}}
	left := MaxCatalogue
	for range maxPages {
		raw, err := r.get(ctx, left, query, "v0.1", "servers")
		if err != nil {
			return nil, false, err
		}
		page, next, err := parsePage(raw)
		if err != nil {
			return nil, false, err
		}
		list, left = append(list, page...), left-len(raw)
		if next == "" || left <= 0 || next == query.Get("cursor") {
			return list, next != "", nil
		}
		query.Set("cursor", next)
	}
	return list, true, nil
}

// Entry asks for NAME or NAME@VERSION.
func (r Registry) Entry(ctx context.Context, ref string) (Entry, error) {
	name, version, _ := strings.Cut(ref, "@")
	version = cmp.Or(version, "latest")
	if !serverName().MatchString(name) || !release().MatchString(version) {
		return Entry{}, notFound()
	}
	raw, err := r.get(ctx, MaxCatalogue, nil, "v0.1", "servers", url.PathEscape(name), "versions",
		url.PathEscape(version))
	if err != nil {
		return Entry{}, err
	}
	list, _, err := parsePage(raw)
	if err != nil {
		return Entry{}, err
	}
	if len(list) != 1 || list[0].Name != name || version != "latest" && list[0].Version != version {
		return Entry{}, &haft.Error{Code: haft.CodeInvalid, Message: "the registry answers with another server than " +
			"the one that it was asked for"}
	}
	return list[0], nil
}

// get makes one request and returns the answer, which may have so many bytes.
func (r Registry) get(ctx context.Context, most int, query url.Values, path ...string) ([]byte, error) {
	base, err := url.Parse(r.URL)
	if err != nil || base.Host == "" || base.User != nil ||
		base.Scheme != "https" && (base.Scheme != "http" || !local(base)) {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the address of a registry is an https URL"}
	}
	at := base.JoinPath(path...)
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the registry: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := r.Client.Do(req)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the registry cannot be reached: use a file " +
			"with --catalogue", Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the registry has not answered", Err: err}
	case resp.StatusCode == http.StatusNotFound && query == nil:
		return nil, notFound()
	case resp.StatusCode != http.StatusOK:
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: fmt.Sprintf("the registry answers with status %d: look at its address", resp.StatusCode)}
	case len(raw) > most:
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: fmt.Sprintf("the registry answers with more than %d MB: add a word", MaxCatalogue>>20)}
	}
	return raw, nil
}

// local reports whether a URL is of this machine.
func local(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// Kind says in a word or two how a server runs.
func (e Entry) Kind() string {
	var kinds []string
	for _, p := range e.Packages {
		kinds = append(kinds, p.RegistryType)
	}
	for _, r := range e.Remotes {
		kinds = append(kinds, cmp.Or(r.Type, "remote"))
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}
