package modelfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
	"haft/internal/secret"
	"haft/schema"
)

// CatalogConfig has what a catalog needs besides its models.
type CatalogConfig struct {
	// Getenv reads the variables that have keys. It is required.
	Getenv func(string) string
	// Secret reads a secret of an organisation; nil means that there are none. It must not return one that is bound to
	// other servers.
	Secret func(ctx context.Context, org, name string) (secret.Value, error)
	// HTTP sends the requests; nil means a client that reaches every address, because the operator names them.
	HTTP *http.Client
}

// A Catalog gives agents the models of a file or of the environment. It is safe for concurrent use.
type Catalog struct {
	file *File
	cfg  CatalogConfig
}

var _ conversation.Models = (*Catalog)(nil)

// NewCatalog returns a catalog of the models of a file, or of [FromEnvironment].
func NewCatalog(f *File, cfg CatalogConfig) (*Catalog, error) {
	if cfg.Getenv == nil {
		return nil, errors.New("a catalog of models needs the environment")
	}
	if cfg.HTTP == nil {
		cfg.HTTP = httpClient()
	}
	c := &Catalog{f, cfg}
	for _, m := range f.Models {
		if _, err := c.client("", m); err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
	}
	_, err := c.Embedder()
	return c, err
}

// An Embedder makes vectors of texts by the endpoint of a file. It is safe for concurrent use.
type Embedder struct {
	c    *Catalog
	cfg  Embeddings
	from Model
}

// Embedder returns the endpoint of the file that makes vectors, or nil if it has none.
func (c *Catalog) Embedder() (*Embedder, error) {
	if c.file.Embeddings == nil {
		return nil, nil
	}
	from, err := c.file.Embeddings.endpoint()
	if err == nil {
		_, err = c.client("", from)
	}
	return &Embedder{c, *c.file.Embeddings, from}, err
}

// Model is the name of the model. Vectors of others are not compared with its own.
func (e *Embedder) Model() string { return e.cfg.Model }

// Embed returns the vectors of texts, with the key of an organisation, see [model.Client.Embed].
func (e *Embedder) Embed(ctx context.Context, org string, texts []string) ([][]float32, error) {
	client, err := e.c.client(org, e.from)
	if err != nil {
		return nil, err
	}
	return client.Embed(ctx, e.cfg.Model, e.cfg.Dimensions, texts)
}

// httpClient has no bound for a whole answer, which may take long. [model.Client] ends one whose server is silent,
// before its headers too, and follows no redirects.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}}
}

// client returns a client of a model for an organisation. All of them share the connections.
func (c *Catalog) client(org string, m Model) (*model.Client, error) {
	return model.New(model.Config{Format: m.Format, BaseURL: m.URL, HTTP: c.cfg.HTTP, Options: m.Options,
		Key: func(ctx context.Context) (string, error) { return c.key(ctx, org, m) }})
}

// key returns the key of a model; "" if it needs none. An error says what to do.
func (c *Catalog) key(ctx context.Context, org string, m Model) (string, error) {
	lacks := func(do string) error {
		return &haft.Error{Code: haft.CodeNotFound, Message: "the model " + m.Name + " has no key: " + do}
	}
	switch {
	case m.KeyEnv != "":
		if key := strings.TrimSpace(c.cfg.Getenv(m.KeyEnv)); key != "" {
			return key, nil
		}
		return "", lacks("set the variable " + m.KeyEnv + " for haft, and start it again")
	case m.KeySecret == "":
		return "", nil
	case c.cfg.Secret == nil:
		return "", lacks("there are no secrets here; use key_env instead of key_secret")
	}
	key, err := c.cfg.Secret(ctx, org, m.KeySecret)
	if haft.CodeOf(err) == haft.CodeNotFound || err == nil && key.IsZero() {
		return "", lacks("store it with: haft secret set " + m.KeySecret)
	} else if err != nil {
		return "", fmt.Errorf("read the key of the model %s: %w", m.Name, err)
	}
	return key.Reveal(), nil
}

// Model implements [conversation.Models]. It returns [haft.CodeNotFound] for a model that is not there or has no key;
// the message says what to do. Its client asks for the key again with every request.
func (c *Catalog) Model(ctx context.Context, p haft.Principal, name string) (*conversation.Model, error) {
	m, err := c.file.Find(name)
	if err != nil {
		return nil, err
	}
	if _, err := c.key(ctx, p.Org, m); err != nil {
		return nil, err
	}
	client, err := c.client(p.Org, m)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	micros := func(price float64) int64 { return int64(math.Round(price * 1_000_000)) } // of at most maxPrice
	return &conversation.Model{Generator: client, Name: m.Model, Provider: provider(m.Format),
		Context: m.ContextTokens, MaxOutput: m.MaxOutputTokens,
		Input: micros(m.PriceInput), Cached: micros(cmp.Or(m.PriceCached, m.PriceInput)),
		Output: micros(m.PriceOutput), Images: m.imageTypes()}, nil
}

// provider is the name that OpenTelemetry has for the vendor of a format. Others speak the format of OpenAI too.
func provider(f schema.Form) string {
	switch f {
	case schema.FormAnthropic:
		return "anthropic"
	case schema.FormGemini:
		return "gcp.gemini"
	}
	return "openai"
}

// List returns all models in the order of the file, as they are for an organisation: without keys and addresses. No
// server is asked.
func (c *Catalog) List(ctx context.Context, org string) []haft.Model {
	list := make([]haft.Model, 0, len(c.file.Models))
	for _, m := range c.file.Models {
		shown := m.shown()
		shown.Default = m.Name == c.file.Default
		if _, err := c.key(ctx, org, m); err != nil {
			shown.Unavailable = haft.MessageOf(err)
		}
		list = append(list, shown)
	}
	return list
}
