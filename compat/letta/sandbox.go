package letta

import (
	"context"
	"encoding/json"
	"time"

	"haft"
)

// sandboxHandlers serve the routes of sandbox configurations.
type sandboxHandlers struct{ sandboxes haft.Sandboxes }

// A wireConfig is a sandbox configuration as Letta knows it.
type wireConfig struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Org     string         `json:"organization_id"`
	Config  map[string]any `json:"config"`
	Created time.Time      `json:"created_at"`
	Updated time.Time      `json:"updated_at"`
}

// A wireSandbox is the content of a configuration. Its fields depend on the type.
type wireSandbox struct {
	Dir      *string         `json:"sandbox_dir"`
	Venv     *bool           `json:"use_venv"`
	VenvName *string         `json:"venv_name"`
	Timeout  *int            `json:"timeout"`
	Template *string         `json:"template"`
	Language *string         `json:"language"`
	Pip      json.RawMessage `json:"pip_requirements"`
	NPM      json.RawMessage `json:"npm_requirements"`
}

// knownType refuses a type that Haft or Letta does not have.
func knownType(t haft.SandboxType) error {
	switch t {
	case haft.SandboxLocal, haft.SandboxE2B, haft.SandboxModal:
		return nil
	}
	return unprocessable("the type of a sandbox is local, e2b or modal")
}

// typ returns the type of a configuration, by the fields that only one type has.
func (w wireSandbox) typ() haft.SandboxType {
	switch {
	case w.Dir != nil || w.Venv != nil || w.VenvName != nil:
		return haft.SandboxLocal
	case isSet(w.NPM) || w.Language != nil:
		return haft.SandboxModal
	case w.Template != nil || w.Timeout != nil:
		return haft.SandboxE2B
	}
	return haft.SandboxLocal
}

// typed reports whether the configuration has a field that only one type has.
func (w wireSandbox) typed() bool {
	return w.Dir != nil || w.Venv != nil || w.VenvName != nil || isSet(w.NPM) || w.Language != nil || w.Template != nil
}

// apply writes the fields that are set to a configuration.
func (w wireSandbox) apply(c *haft.SandboxConfig) error {
	switch {
	case w.Dir != nil && *w.Dir != "":
		return invalid("sandbox_dir: tools see no directory of the host here; give them what they import as packages")
	case w.Template != nil && *w.Template != "":
		return invalid("template: the machines that are rented are chosen by the operator")
	}
	if w.Timeout != nil {
		if *w.Timeout < 1 || *w.Timeout > 24*3600 {
			return unprocessable("body config.timeout: expected a number of seconds")
		}
		c.Limits.Wall = haft.Millis(time.Duration(*w.Timeout) * time.Second)
	}
	for _, part := range []struct {
		raw       json.RawMessage
		separator string
		to        *[]string
	}{{w.Pip, "==", &c.Needs.Pip}, {w.NPM, "@", &c.Needs.NPM}} {
		if !isSet(part.raw) {
			continue
		}
		list, err := needs(part.raw, part.separator)
		if err != nil {
			return err
		}
		*part.to = list
	}
	return nil
}

// needs reads packages, which are objects for the local sandbox and texts for the
// others.
func needs(raw json.RawMessage, separator string) ([]string, error) {
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		return texts, nil
	}
	var list []wirePackage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, unprocessable("body config: packages are names, or objects with a name and a version")
	}
	return names(list, separator)
}

// showConfig writes a configuration.
func showConfig(c haft.SandboxConfig) wireConfig {
	config := map[string]any{}
	switch c.Type {
	case haft.SandboxE2B, haft.SandboxModal:
		timeout := 300
		if c.Limits.Wall > 0 {
			timeout = int(c.Limits.Wall.D().Seconds())
		}
		config["timeout"], config["pip_requirements"] = timeout, append([]string{}, c.Needs.Pip...)
		if c.Type == haft.SandboxE2B {
			config["template"] = nil
		} else {
			config["npm_requirements"], config["language"] = append([]string{}, c.Needs.NPM...), "python"
		}
	default:
		config["sandbox_dir"], config["use_venv"], config["venv_name"] = nil, true, "venv"
		config["pip_requirements"] = append([]wirePackage{}, packages(c.Needs.Pip, "==")...)
	}
	return wireConfig{
		ID: configID(c), Type: string(c.Type), Org: digestID(orgWord, c.Org), Config: config, Created: c.Created.UTC(),
		Updated: c.Updated.UTC(),
	}
}

// configID is Letta's id of a configuration.
func configID(c haft.SandboxConfig) string { return digestID(sandboxWord, c.Org, string(c.ID), "") }

// errNoConfig is the error for an id of no configuration.
var errNoConfig = notFound("there is no sandbox configuration with that id")

// pathConfig is the configuration that the path names.
func (h sandboxHandlers) pathConfig(ctx context.Context, q *request) (*haft.SandboxConfig, error) {
	id := q.PathValue("config")
	if _, _, err := readID(sandboxWord, "", id); err != nil {
		return nil, err
	}
	if h.sandboxes == nil {
		return nil, missing("sandbox configurations")
	}
	for c, err := range h.sandboxes.SandboxConfigs(ctx, q.who.Principal) {
		if err != nil || configID(c) == id {
			return &c, err
		}
	}
	return nil, errNoConfig
}

// configBody is a sandbox configuration to write.
type configBody struct {
	Config *wireSandbox `json:"config"`
}

// createConfig adds a configuration, or changes the one of its type: there is one
// for each.
func (h sandboxHandlers) createConfig(ctx context.Context, q *request, b configBody) (any, error) {
	if b.Config == nil {
		return nil, unprocessable("body config: it is missing")
	}
	return h.putConfig(ctx, q, b.Config.typ(), b.Config)
}

// localConfig is createConfig with the configuration itself as the body.
func (h sandboxHandlers) localConfig(ctx context.Context, q *request, b wireSandbox) (any, error) {
	return h.putConfig(ctx, q, haft.SandboxLocal, &b)
}

// defaultLocal and defaultE2B return the configuration of a type, which there is
// from then on.
func (h sandboxHandlers) defaultLocal(ctx context.Context, q *request) (any, error) {
	return h.putConfig(ctx, q, haft.SandboxLocal, nil)
}

func (h sandboxHandlers) defaultE2B(ctx context.Context, q *request) (any, error) {
	return h.putConfig(ctx, q, haft.SandboxE2B, nil)
}

// putConfig changes the configuration of a type, or adds one. Nil does not change an existing
// one.
func (h sandboxHandlers) putConfig(ctx context.Context, q *request, typ haft.SandboxType, w *wireSandbox) (any, error) {
	next := haft.SandboxConfig{Type: typ, If: haft.IfNone}
	switch old, err := h.sandboxes.SandboxConfig(ctx, q.who.Principal, string(typ)); {
	case err == nil && w == nil:
		return showConfig(*old), nil
	case err == nil:
		next = *old
		next.If = old.Revision()
	case !isNotFound(err):
		return nil, err
	}
	if w != nil {
		if err := w.apply(&next); err != nil {
			return nil, err
		}
	}
	stored, err := h.sandboxes.PutSandboxConfig(ctx, q.who.Principal, next)
	if err != nil {
		return nil, err
	}
	return showConfig(*stored), nil
}

func (h sandboxHandlers) updateConfig(ctx context.Context, q *request, b configBody) (any, error) {
	c, err := h.pathConfig(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case b.Config == nil:
		return showConfig(*c), nil
	case b.Config.typed() && b.Config.typ() != c.Type:
		return nil, invalid("Mismatched type for sandbox config update")
	}
	return h.putConfig(ctx, q, c.Type, b.Config)
}

func (h sandboxHandlers) deleteConfig(ctx context.Context, q *request, c haft.SandboxConfig) (any, error) {
	return nothing{}, h.sandboxes.RemoveSandboxConfig(ctx, q.who.Principal, string(c.ID), "")
}

func (h sandboxHandlers) listConfigs(ctx context.Context, q *request) (any, error) {
	query := q.URL.Query()
	pg, err := paging(query, maxPage)
	if err != nil {
		return nil, err
	}
	want := query.Get("sandbox_type")
	if want != "" {
		if err := knownType(haft.SandboxType(want)); err != nil {
			return nil, err
		}
	}
	var all []item[wireConfig]
	for c, err := range h.sandboxes.SandboxConfigs(ctx, q.who.Principal) {
		if err != nil {
			return nil, err
		}
		if knownType(c.Type) == nil && (want == "" || want == string(c.Type)) { // Letta has no others
			all = append(all, item[wireConfig]{c.Created, configID(c), showConfig(c)})
		}
	}
	return cut(pg, all, among(all, errNoConfig))
}
