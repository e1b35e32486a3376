// Package modelfile reads which language models a server has, from a TOML file:
//
//	default = "claude"
//
//	[models.claude]
//	format = "anthropic"               # openai, openai-responses, anthropic or gemini
//	model = "claude-sonnet-5"          # the vendor's name; that of the table if it is not given
//	key_env = "ANTHROPIC_API_KEY"      # or key_secret, the name of a secret of the organisation
//	context_tokens = 200000
//	max_output_tokens = 8192
//	price_input = 2.0                  # per million tokens
//	price_cached = 0.2                 # of tokens that the vendor has cached; price_input if it is not given
//	price_output = 10.0
//	images = false                     # do not send the images that tools return
//	options = { thinking = { type = "adaptive" } }
//
//	[models.local]
//	format = "openai"
//	url = "http://127.0.0.1:11434/v1"  # http to another machine needs insecure = true
//	model = "gpt-oss:20b"
//
//	[embeddings]                       # what finds passages by their meaning; none if it is not given
//	url = "http://127.0.0.1:11434/v1"  # a server that has POST /embeddings of OpenAI
//	model = "nomic-embed-text"
//	dimensions = 768                   # asked for and demanded; what the server gives if it is not given
//
// Without a file, [FromEnvironment] finds the models whose usual variables are set. A [Catalog] gives them to agents.
//
// A file holds the names of keys and never a key. Errors name the line and what is expected there, and no value.
package modelfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"haft"
	"haft/internal/model"
	"haft/schema"
)

// The bounds of a file.
const (
	maxBytes  = 64 << 10
	maxModels = 100
	maxNames  = 20 // that an error lists
	maxTokens = 100_000_000
	maxPrice  = 1_000_000
)

// A Model is one that agents can be given.
type Model struct {
	// Name is what agents call it.
	Name   string      `toml:"-"`
	Format schema.Form `toml:"format"`
	URL    string      `toml:"url"`
	// Model is the vendor's name.
	Model string `toml:"model"`
	// KeyEnv is the variable that has the key, and KeySecret the secret of the organisation. Both are empty if the
	// server needs no key.
	KeyEnv    string `toml:"key_env"`
	KeySecret string `toml:"key_secret"`
	// ContextTokens is how much the model reads, and MaxOutputTokens how much it writes; 0 if that is not known.
	ContextTokens   int `toml:"context_tokens"`
	MaxOutputTokens int `toml:"max_output_tokens"`
	// The prices are for a million tokens; 0 if they are not known. Cached tokens of the input cost as much as others
	// if PriceCached is 0.
	PriceInput  float64 `toml:"price_input"`
	PriceCached float64 `toml:"price_cached"`
	PriceOutput float64 `toml:"price_output"`
	// Insecure allows http to another machine, where anyone on the network can read the key and the conversation.
	Insecure bool `toml:"insecure"`
	// Images says whether the model is sent the images that tools return. By default it is, except in the format
	// openai, which many servers speak whose models see no images.
	Images *bool `toml:"images"`
	// Options are further fields of the vendor's request.
	Options map[string]any `toml:"options"`
}

// String returns the name, the format and the vendor's name.
func (m Model) String() string { return fmt.Sprintf("%s (%s, %s)", m.Name, m.Format, m.Model) }

// Embeddings are an endpoint that makes vectors of texts, by OpenAI's format. Its fields are like those of a [Model].
type Embeddings struct {
	URL       string `toml:"url"`
	Model     string `toml:"model"`
	KeyEnv    string `toml:"key_env"`
	KeySecret string `toml:"key_secret"`
	Insecure  bool   `toml:"insecure"`
	// Dimensions is how many numbers vectors have; 0 is what the server gives.
	Dimensions int `toml:"dimensions"`
}

// endpoint returns the endpoint as a model, whose rules it has.
func (e Embeddings) endpoint() (m Model, err error) {
	m = Model{Name: "embeddings", Format: schema.FormOpenAI, URL: e.URL, Model: e.Model, KeyEnv: e.KeyEnv,
		KeySecret: e.KeySecret, Insecure: e.Insecure}
	if e.Model == "" || e.Dimensions < 0 || e.Dimensions > model.MaxDimensions {
		return m, fmt.Errorf("embeddings have a model, and up to %d dimensions", model.MaxDimensions)
	}
	return m, m.complete()
}

// A File is the models of a server.
type File struct {
	// Default is the name of the model of agents that name none; empty if there are no models.
	Default string
	// Models are in the order of the file.
	Models []Model
	// Embeddings is the endpoint that finds passages by their meaning; nil if there is none.
	Embeddings *Embeddings
	// AnyModel allows every model of the vendors that are listed, by names such as ollama/qwen3. It is for a person
	// whose own keys pay.
	AnyModel bool
	// Notes say which models of the environment were left out, and why.
	Notes []string
}

// shown is a model as others see it, without its key and address.
func (m Model) shown() haft.Model {
	provider, _, _ := strings.Cut(string(m.Format), "-")
	return haft.Model{Name: m.Name, Model: m.Model, Provider: provider, Context: m.ContextTokens}
}

// imageTypes are the types of the images that the model is sent.
func (m Model) imageTypes() []string {
	if m.Images == nil && m.Format == schema.FormOpenAI || m.Images != nil && !*m.Images {
		return nil
	}
	return model.ImageTypes(m.Format)
}

// Find returns the model of a name, or the default one for "". If no model has the name, it is the first one that the
// name can mean, see [haft.Model.Is].
func (f *File) Find(name string) (Model, error) {
	name = cmp.Or(name, f.Default)
	for _, is := range []func(Model) bool{func(m Model) bool { return m.Name == name },
		func(m Model) bool { return m.shown().Is(name) }} {
		if i := slices.IndexFunc(f.Models, is); i >= 0 && name != "" {
			return f.Models[i], nil
		}
	}
	vendor, rest, _ := strings.Cut(name, "/")
	i := slices.IndexFunc(f.Models, func(m Model) bool { return m.Name == vendor })
	if i >= 0 && f.AnyModel && rest != "" {
		m := f.Models[i]
		m.Name, m.Model = name, rest
		if err := m.complete(); err != nil {
			return Model{}, &haft.Error{Code: haft.CodeInvalid, Err: err,
				Message: "the name of the model cannot be used"}
		}
		return m, nil
	}
	if len(f.Models) == 0 {
		return Model{}, None(f.Notes...)
	}
	names := make([]string, 0, len(f.Models))
	for _, m := range f.Models[:min(len(f.Models), maxNames)] {
		names = append(names, m.Name)
	}
	if more := len(f.Models) - maxNames; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	message := "there is no such model; there are " + strings.Join(names, ", ")
	if f.AnyModel {
		message += "; others are named with their vendor, such as " + f.Default + "/MODEL"
	}
	return Model{}, &haft.Error{Code: haft.CodeNotFound, Message: message}
}

// None is the error of whoever needs a model where there is none.
func None(notes ...string) error {
	return &haft.Error{Code: haft.CodeNotFound,
		Message: strings.Join(append([]string{"no model is configured: set OPENAI_API_KEY, OPENAI_BASE_URL, " +
			"ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST, or name a file with --models"}, notes...), "; ")}
}

// urls are the addresses of the vendors.
var urls = map[schema.Form]string{
	schema.FormOpenAI:          "https://api.openai.com/v1",
	schema.FormOpenAIResponses: "https://api.openai.com/v1",
	schema.FormAnthropic:       "https://api.anthropic.com/v1",
	schema.FormGemini:          "https://generativelanguage.googleapis.com/v1beta",
}

// What names look like.
var (
	modelName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`) })
	variable   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,127}$`) })
	secretName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })
)

// Load reads the file at a path, or the models of the environment if the path is empty. A file replaces those: whoever
// writes one decides what agents may use, and at which prices.
func Load(path string, getenv func(string) string) (*File, error) {
	if path == "" {
		return FromEnvironment(getenv), nil
	}
	wrong := func(err error) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the file of models cannot be read", Err: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, wrong(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, wrong(err)
	}
	return Parse(path, string(text))
}

// ForServer is [Load] for a server, whose keys pay for all organisations: the operator names a file, or "env" for the
// environment. An empty path means that there are no models, and is nil.
func ForServer(path string, getenv func(string) string, log *slog.Logger) (*File, error) {
	switch path {
	case "":
		return nil, nil
	case "env":
		path = ""
	}
	f, err := Load(path, getenv)
	if err == nil {
		f.AnyModel = false
		for _, note := range f.Notes {
			log.Warn("a model of the environment is not used", "why", note)
		}
	}
	return f, err
}

// Parse reads a file. origin names it in errors.
func Parse(origin, text string) (*File, error) {
	refuse := func(line int, format string, args ...any) error {
		place := origin
		if line > 0 {
			place += fmt.Sprintf(": line %d", line)
		}
		return &haft.Error{Code: haft.CodeInvalid, Message: place + ": " + fmt.Sprintf(format, args...)}
	}
	if len(text) > maxBytes {
		return nil, refuse(0, "it has %d bytes, %d is the most", len(text), maxBytes)
	}
	var doc struct {
		Default    string           `toml:"default"`
		Models     map[string]Model `toml:"models"`
		Embeddings *Embeddings      `toml:"embeddings"`
	}
	md, err := toml.Decode(text, &doc)
	if err != nil {
		line := 0
		if pe, ok := errors.AsType[toml.ParseError](err); ok { // its words may hold a key that was written here
			line = pe.Position.Line
		}
		return nil, refuse(line, "it is not TOML, or a value has another type than the documentation says")
	}
	for _, key := range md.Undecoded() {
		if len(key) > 3 && key[2] == "options" {
			continue // whose keys are the vendor's
		}
		return nil, refuse(lineOf(text, key), "this key is not known; a model has format, url, model, key_env, "+
			"key_secret, context_tokens, max_output_tokens, price_input, price_cached, price_output, images, insecure "+
			"and options; embeddings have url, model, key_env, key_secret, dimensions and insecure")
	}
	if len(doc.Models) == 0 || len(doc.Models) > maxModels {
		return nil, refuse(0, "it has %d tables [models.NAME]; 1 to %d are expected", len(doc.Models), maxModels)
	}
	f := &File{Default: doc.Default, Embeddings: doc.Embeddings}
	if f.Embeddings != nil {
		if _, err := f.Embeddings.endpoint(); err != nil {
			return nil, refuse(lineOf(text, toml.Key{"embeddings"}), "%s", err)
		}
	}
	for _, key := range md.Keys() {
		if len(key) != 2 || key[0] != "models" {
			continue
		}
		m := doc.Models[key[1]]
		m.Name = key[1]
		if err := m.complete(); err != nil {
			return nil, refuse(lineOf(text, key), "%s", err)
		}
		f.Models = append(f.Models, m)
	}
	f.Default = cmp.Or(f.Default, f.Models[0].Name)
	if _, err := f.Find(f.Default); err != nil {
		return nil, refuse(lineOf(text, toml.Key{"default"}), "default is none of the models of the file")
	}
	return f, nil
}

// A located value cannot be decoded, so that the parser says where it stands.
type located struct{}

// errLocated is its error, which nobody sees.
var errLocated = errors.New("here")

// UnmarshalTOML implements [toml.Unmarshaler].
func (*located) UnmarshalTOML(any) error { return errLocated }

// lineOf returns the line where a key is defined, or 0 if that is not known. The parser says it only for a value that
// it cannot decode.
func lineOf(text string, key toml.Key) int {
	var fields map[string]toml.Primitive
	md, err := toml.Decode(text, &fields)
	for i, name := range key {
		value, ok := fields[name]
		if err != nil || !ok {
			return 0
		}
		if fields = nil; i < len(key)-1 {
			err = md.PrimitiveDecode(value, &fields)
			continue
		}
		err = md.PrimitiveDecode(value, &located{})
	}
	at, _ := errors.AsType[toml.ParseError](err)
	return at.Position.Line
}

// complete fills in what is not given, and reports what is wrong.
func (m *Model) complete() error {
	usual, ok := urls[m.Format]
	m.URL, m.Model = cmp.Or(m.URL, usual), cmp.Or(m.Model, m.Name)
	switch {
	case !modelName().MatchString(m.Name):
		return errors.New("the name of a model has 1 to 100 letters, digits and . _ : / -")
	case !ok:
		return errors.New("format is one of openai, openai-responses, anthropic, gemini")
	case len(m.Model) > 200 || strings.ContainsFunc(m.Model, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return errors.New("model is the vendor's name, up to 200 characters without spaces")
	case m.KeyEnv != "" && !variable().MatchString(m.KeyEnv),
		m.KeySecret != "" && !secretName().MatchString(m.KeySecret):
		return errors.New("key_env and key_secret are names such as OPENAI_API_KEY, and not the key itself")
	case m.KeyEnv != "" && m.KeySecret != "":
		return errors.New("a model has key_env or key_secret, and not both")
	case min(m.ContextTokens, m.MaxOutputTokens) < 0, max(m.ContextTokens, m.MaxOutputTokens) > maxTokens:
		return errors.New("context_tokens and max_output_tokens are numbers of tokens")
	case m.ContextTokens > 0 && m.MaxOutputTokens >= m.ContextTokens:
		return errors.New("max_output_tokens is less than context_tokens")
	case !(min(m.PriceInput, m.PriceCached, m.PriceOutput) >= 0 &&
		max(m.PriceInput, m.PriceCached, m.PriceOutput) <= maxPrice):
		return errors.New("prices are for a million tokens, and not negative")
	}
	if _, err := json.Marshal(m.Options); err != nil { // such as nan
		return errors.New("options has a value that JSON does not have")
	}
	return m.checkURL()
}

// checkURL reports what is wrong with the address. It does not show it, because it may contain a password.
func (m *Model) checkURL() error {
	u, err := url.Parse(m.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("url is an address such as https://host/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("url has no user, password, query or fragment; the key has its own setting")
	case u.Scheme == "http" && !m.Insecure && !loopback(u.Hostname()):
		return errors.New("url begins with https://; http:// to another machine needs insecure = true")
	}
	return nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
