package mcpserver

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/internal/fileparam"
	"haft/internal/jsontree"
)

// The bounds of arguments that are read to find resources in them. Larger ones are passed on as
// they are.
const (
	maxArgs      = 1 << 20
	maxArgDepth  = 64
	maxArtifacts = 16 // that one call is given, and calls that they are looked for in
	maxGiven     = 16 << 20
)

// giveArtifacts gives a call the artifacts that its arguments name as resources, where the tool
// takes files. What the caller may not read stays an address, which is no file.
func (v *view) giveArtifacts(ctx context.Context, t haft.Tool, c *haft.Call) error {
	params := fileparam.Compile(t.Version.Kind, t.Version.Parameters)
	if params == nil || !v.who.Artifacts || !strings.Contains(string(c.Args), scheme) {
		return nil
	}
	args, err := jsontree.Decode(c.Args, jsontree.Limits{Bytes: maxArgs, Depth: maxArgDepth})
	if err != nil {
		return nil // the call says what is wrong with them
	}
	refs, _ := params.Refs(args)
	size, seen := 0, map[haft.CallID][]haft.Artifact{}
	for _, r := range refs {
		id, name, ok := parseURI(r.Text)
		if !ok || len(c.Files) == maxArtifacts {
			continue
		}
		if _, ok := seen[id]; !ok {
			if len(seen) == maxArtifacts {
				continue
			}
			if seen[id], err = v.artifacts(ctx, id); err != nil {
				return err
			}
		}
		a := artifactOf(seen[id], name)
		if a == nil || size+len(a.Data) > maxGiven {
			continue
		}
		size += len(a.Data)
		at := path.Join("artifacts", strconv.Itoa(len(c.Files)+1), path.Base(name))
		c.Files = append(c.Files, haft.CallFile{Path: at, Data: a.Data})
		jsontree.Set(args, r.At, at)
	}
	if len(c.Files) > 0 {
		c.Args, err = json.Marshal(args)
	}
	return err
}

// artifacts returns the artifacts of a call, or none if the caller may not see it.
func (v *view) artifacts(ctx context.Context, id haft.CallID) ([]haft.Artifact, error) {
	rec, err := v.s.service.Record(ctx, v.who.Principal, id)
	switch code := haft.CodeOf(err); {
	case code == haft.CodeNotFound || code == haft.CodeDenied || err == nil && rec.Result == nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return rec.Result.Artifacts, nil
}

// artifactOf returns the artifact of this name whose content is there, or nil.
func artifactOf(list []haft.Artifact, name string) *haft.Artifact {
	i := slices.IndexFunc(list, func(a haft.Artifact) bool { return a.Name == name && a.Size <= int64(len(a.Data)) })
	if i < 0 {
		return nil
	}
	return &list[i]
}
