package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"haft"
)

// digestForm stands at the front of what is hashed. It changes with the meaning
// of the fields, so that digests of two forms are never equal.
const digestForm = "haft-version-1\n"

// digested is what a digest covers: all that decides what a call runs, how, and
// what a model sees of it. Empty fields are left out, so that a field that
// is added later changes no digest of a version without it.
type digested struct {
	Kind         haft.Kind         `json:"kind"`
	Description  string            `json:"description"`
	Source       string            `json:"source"`
	File         string            `json:"file,omitempty"` // which a source can read, as __file__ and $0
	Files        []digestedFile    `json:"files,omitempty"`
	Function     string            `json:"function,omitempty"`
	Pass         []haft.Argument   `json:"pass,omitempty"`
	Injected     []string          `json:"injected,omitempty"`
	Parameters   json.RawMessage   `json:"parameters,omitempty"`
	Returns      json.RawMessage   `json:"returns,omitempty"`
	Requirements haft.Requirements `json:"requirements,omitzero"`
	Lock         haft.Lock         `json:"lock,omitzero"`
	Settings     haft.Settings     `json:"settings,omitzero"`
	Annotations  haft.Annotations  `json:"annotations,omitzero"`
	Server       string            `json:"server,omitempty"`
	Origin       string            `json:"origin,omitempty"`
}

// digestedFile is what a digest covers of a file.
type digestedFile struct {
	Path   string `json:"path"`
	SHA256 []byte `json:"sha256"`
}

// Digest names a version by its content, as "sha256:" and hex digits: its kind,
// description, source, files, function and how that is given its arguments, schemas,
// requirements and their lock, settings and annotations. Schemas are compared as compact JSON,
// with their keys in order, since models read them from top to bottom. It is ""
// for a version that is no JSON, which no store has.
func Digest(v haft.Version) string {
	var files []digestedFile
	for _, f := range v.Files {
		sum := sha256.Sum256(f.Bytes())
		files = append(files, digestedFile{f.Path, sum[:]})
	}
	text, err := json.Marshal(digested{
		Kind: v.Kind, Description: v.Description, Source: v.Source, File: v.File, Files: files,
		Function: v.Function, Pass: v.Pass, Injected: v.Injected, Parameters: v.Parameters, Returns: v.Returns,
		Requirements: v.Requirements, Lock: v.Lock, Settings: v.Settings, Annotations: v.Annotations,
		Server: v.Server, Origin: v.Origin,
	})
	if err != nil {
		return ""
	}
	h := sha256.New()
	h.Write([]byte(digestForm))
	h.Write(text)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
