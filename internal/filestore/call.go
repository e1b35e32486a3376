package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/fileparam"
	"haft/sandbox"
)

// The bounds of the files of one call.
const (
	maxCallFiles = 64
	// maxCallBytes bounds them together: they are sent to the sandbox in one message, as base64.
	maxCallBytes = 16 << 20
	// keepInRecord is how many bytes of artifacts are kept in the record of their call.
	keepInRecord = 8 << 20
)

// Bind checks the files of a call that p makes, and returns them with paths and digests. The
// content of a file never changes, so what was bound is what the tool gets.
func (s *Store) Bind(ctx context.Context, rules authority.Rules, p haft.Principal,
	list []haft.CallFile) ([]haft.CallFile, error) {
	if len(list) > maxCallFiles {
		return nil, invalid("/files", fmt.Sprintf("expected at most %d files", maxCallFiles))
	}
	bound := slices.Clone(list)
	check := make([]sandbox.File, len(bound))
	var size int64
	for i := range bound {
		n, err := s.bind(ctx, rules, p, &bound[i], fmt.Sprintf("/files/%d", i))
		if err != nil {
			return nil, err
		}
		if check[i].Name = bound[i].Path; !isData(bound[i].Path) && !isArgument(bound[i]) {
			return nil, invalid(fmt.Sprintf("/files/%d/path", i), "expected a path without a hidden part, "+
				"node_modules or package.json: programs read their settings and code from those")
		}
		if size += n; size > maxCallBytes {
			return nil, invalid("/files", fmt.Sprintf("expected at most %d bytes together", maxCallBytes))
		}
	}
	if err := (sandbox.Spec{Argv: []string{"/"}, Files: check}).Check(); err != nil {
		return nil, invalid("/files", haft.MessageOf(err))
	}
	return bound, nil
}

// isData reports whether no program takes a file at that path for its settings or code by itself.
// The working directory is also the home of the tool, whose secrets are not the caller's.
func isData(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, ".") && part != ".." || part == "node_modules" || part == "package.json" {
			return false
		}
	}
	return true
}

// argumentDir is where files are that are arguments, each in a directory of its id: their names can
// be equal, or be those of files of the tool. What is there is no artifact.
const argumentDir = ".haft/files/"

// isArgument reports whether a file lies where arguments do.
func isArgument(f haft.CallFile) bool {
	name, ok := strings.CutPrefix(f.Path, argumentDir+string(f.ID)+"/")
	return ok && f.ID != "" && !strings.Contains(name, "/")
}

// BindArguments adds the files that arguments are to the bound files of a call, and returns where
// they are. The failure says which argument names no file that p may read.
func (s *Store) BindArguments(ctx context.Context, rules authority.Rules, p haft.Principal, list []haft.CallFile,
	refs []fileparam.Ref) (bound []haft.CallFile, args []executor.FileArg, failure *haft.Failure, err error) {
	bound = slices.Clone(list)
	var given []string
	for _, f := range list {
		if !isArgument(f) {
			given = append(given, f.Path)
		}
	}
	known := map[haft.FileID]string{}
	args, failure, err = fileparam.Resolve(refs, given, func(id haft.FileID) (string, error) {
		if at, ok := known[id]; ok {
			return at, nil
		}
		if len(bound) >= maxCallFiles {
			return "", invalid("", fmt.Sprintf("expected at most %d files", maxCallFiles))
		}
		f := haft.CallFile{ID: id}
		if _, err := s.bind(ctx, rules, p, &f, ""); err != nil {
			return "", err
		}
		f.Path = argumentDir + string(id) + "/" + f.Path
		if !slices.ContainsFunc(bound, func(b haft.CallFile) bool { return b.Path == f.Path }) {
			bound = append(bound, f)
		}
		known[id] = f.Path
		return f.Path, nil
	})
	if err == nil && failure == nil && len(bound) > len(list) {
		bound, err = s.Bind(ctx, rules, p, bound)
	}
	return bound, args, failure, err
}

// bind fills in what the caller left out of one file, and returns its size.
func (s *Store) bind(ctx context.Context, rules authority.Rules, p haft.Principal, f *haft.CallFile,
	pointer string) (int64, error) {
	if f.ID == "" {
		if f.Path == "" {
			return 0, invalid(pointer+"/path", "expected a path, since the content has no name")
		}
		sum := sha256.Sum256(f.Data)
		f.SHA256 = hex.EncodeToString(sum[:])
		return int64(len(f.Data)), nil
	}
	if f.Data != nil {
		return 0, invalid(pointer, "expected an id or data, not both")
	}
	kept, err := s.Get(ctx, p.Org, f.ID)
	if err == nil {
		err = rules.Authorize(p, haft.FilesRead, authority.Owned("file", kept.Owner))
	}
	if haft.CodeOf(err) == haft.CodeNotFound {
		return 0, invalid(pointer+"/id", "there is no such file")
	}
	if err != nil {
		return 0, err
	}
	if !kept.Complete() {
		return 0, invalid(pointer+"/id", fmt.Sprintf("the file has %d of %d bytes: send the rest first", kept.Uploaded,
			kept.Size))
	}
	if f.Path == "" {
		f.Path = kept.Name
	}
	f.SHA256 = kept.SHA256
	return kept.Size, nil
}

// maxLoaded is how many calls have files in memory at once: a small request can name large files.
const maxLoaded = 32

// Load returns the files of a call, which were bound, with their content, if p may still read them.
// It waits until few enough calls have files in memory; drop says that this one has them no more.
func (s *Store) Load(ctx context.Context, rules authority.Rules, p haft.Principal,
	list []haft.CallFile) (files []sandbox.File, drop func(), err error) {
	if _, err := s.Bind(ctx, rules, p, list); err != nil {
		return nil, nil, err
	}
	select {
	case s.loaded <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if files, err = s.load(ctx, p.Org, list); err != nil {
		<-s.loaded
		return nil, nil, err
	}
	return files, func() { <-s.loaded }, nil
}

// OfTool returns the files of a tool as its calls get them.
func OfTool(list []haft.ToolFile) []sandbox.File {
	if len(list) == 0 {
		return nil
	}
	files := make([]sandbox.File, len(list))
	for i, f := range list {
		files[i] = sandbox.File{Name: f.Path, Data: f.Bytes(), Mode: 0o644}
	}
	return files
}

// HasModule reports whether a module that a tool imports is one of its files: then no package is
// missing.
func HasModule(list []haft.ToolFile, module string) bool {
	return slices.ContainsFunc(list, func(f haft.ToolFile) bool {
		return f.Path == module+".py" || strings.HasPrefix(f.Path, module+"/")
	})
}

// load reads the content of files.
func (s *Store) load(ctx context.Context, org string, list []haft.CallFile) ([]sandbox.File, error) {
	files := make([]sandbox.File, len(list))
	for i, f := range list {
		data := f.Data
		if f.ID != "" {
			kept, err := s.Get(ctx, org, f.ID)
			if err == nil {
				data, err = s.Content(ctx, *kept)
			}
			if err != nil {
				return nil, fmt.Errorf("read the file for %q: %w", f.Path, err)
			}
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 {
			return nil, &haft.Error{Code: haft.CodeConflict,
				Message: "a file of the call is not the one that was given"}
		}
		files[i] = sandbox.File{Name: f.Path, Data: data, Mode: 0o644}
	}
	return files, nil
}

// KeepArtifacts adds artifacts that are too large for the record of their call as files, names these
// in res, and returns the result that is kept: without their content. If a file cannot be added the
// artifact stays as it is, and the error says why.
func (s *Store) KeepArtifacts(ctx context.Context, owner haft.Principal, call haft.CallID,
	res *haft.Result) (*haft.Result, error) {
	size := 0
	for _, a := range res.Artifacts {
		size += len(a.Data)
	}
	if size <= keepInRecord {
		return res, nil
	}
	kept := *res
	kept.Artifacts = slices.Clone(res.Artifacts)
	var errs []error
	for i, a := range res.Artifacts {
		if len(a.Data) == 0 {
			continue
		}
		n := haft.NewFile{Name: baseName(a.Name), ContentType: a.ContentType, Size: int64(len(a.Data))}
		if _, _, err := mime.ParseMediaType(n.ContentType); err != nil {
			n.ContentType = "" // an MCP server may say anything
		}
		f, err := s.Add(ctx, owner, n, call, a.Data)
		if err != nil {
			errs = append(errs, fmt.Errorf("keep an artifact as a file: %w", err))
			continue
		}
		res.Artifacts[i].File, kept.Artifacts[i].File, kept.Artifacts[i].Data = f.ID, f.ID, nil
	}
	return &kept, errors.Join(errs...)
}

// WithoutContent returns the files of a call as they are kept and shown: without content that
// came with the call, and without its digest, which could be tried out.
func WithoutContent(list []haft.CallFile) []haft.CallFile {
	shown := slices.Clone(list)
	for i := range shown {
		if shown[i].Data = nil; shown[i].ID == "" {
			shown[i].SHA256 = ""
		}
	}
	return shown
}

// Digest is text that two lists of bound files have in common only if a tool finds the same files.
func Digest(list []haft.CallFile) string {
	var all strings.Builder
	for _, f := range list {
		fmt.Fprintf(&all, "\x00%q %s", f.Path, f.SHA256)
	}
	return all.String()
}
