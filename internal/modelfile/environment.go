package modelfile

import (
	"net/url"
	"strings"

	"haft/schema"
)

// FromEnvironment returns the models of a server without a file: one of each vendor whose usual variable is set. The
// first one is the default. OPENAI_BASE_URL is a server that speaks Chat Completions, with or without a key.
func FromEnvironment(getenv func(string) string) *File {
	f := &File{AnyModel: true}
	openAI := Model{Name: "openai", Format: schema.FormOpenAIResponses, Model: "gpt-5.5", KeyEnv: "OPENAI_API_KEY",
		ContextTokens: 256_000, MaxOutputTokens: 16_384}
	if openAI.URL = strings.TrimSpace(getenv("OPENAI_BASE_URL")); openAI.URL != "" {
		openAI.Format = schema.FormOpenAI
		if getenv(openAI.KeyEnv) == "" {
			openAI.KeyEnv = ""
		}
	}
	for _, m := range []Model{
		{Name: "anthropic", Format: schema.FormAnthropic, Model: "claude-sonnet-5", KeyEnv: "ANTHROPIC_API_KEY",
			ContextTokens: 200_000, MaxOutputTokens: 16_384},
		openAI,
		{Name: "gemini", Format: schema.FormGemini, Model: "gemini-flash-latest", KeyEnv: "GEMINI_API_KEY",
			ContextTokens: 1_000_000, MaxOutputTokens: 16_384},
		{Name: "ollama", Format: schema.FormOpenAI, Model: "gpt-oss:20b", URL: ollamaURL(getenv("OLLAMA_HOST")),
			ContextTokens: 16_384, MaxOutputTokens: 4096},
	} {
		if m.KeyEnv != "" && getenv(m.KeyEnv) == "" || m.KeyEnv == "" && m.URL == "" {
			continue
		}
		if err := m.complete(); err != nil {
			f.Notes = append(f.Notes, m.Name+" is left out: "+err.Error()+"; write a file for haft serve --models")
			continue
		}
		f.Models = append(f.Models, m)
	}
	if len(f.Models) > 0 {
		f.Default = f.Models[0].Name
	}
	return f
}

// ollamaURL returns the address of Ollama's variable, which may lack the scheme and the port, and may be the one where
// the server listens.
func ollamaURL(host string) string {
	if host = strings.TrimSpace(host); host == "" {
		return ""
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return host // which is refused later
	}
	name, port := u.Hostname(), u.Port()
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "127.0.0.1"
	}
	if port == "" && u.Scheme == "http" {
		port = "11434"
	}
	if u.Host = name; strings.Contains(name, ":") {
		u.Host = "[" + name + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1"
	}
	return u.String()
}
