package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/filestore"
	"haft/internal/limit"
)

// cacheFor is how long values of a cacheable tool are kept by default.
const cacheFor = time.Hour

// cacheKey identifies what the value of a pure tool depends on: the version, the
// arguments, the environment and the files.
func (rn *runner) cacheKey(ex *execution) string {
	env := make([]string, 0, len(ex.env.Vars))
	for k, v := range ex.env.Vars {
		env = append(env, limit.Key(k, v))
	}
	slices.Sort(env)
	raw := limit.Key(ex.tool.Tool.Version.Digest, string(ex.args), strings.Join(env, "\n")) +
		filestore.Digest(ex.call.Files)
	return rn.digests.Digest("cache", json.RawMessage(raw))
}

// cached settles the call with the value of an earlier one, if there is one.
func (rn *runner) cached(ctx context.Context, ex *execution) (bool, error) {
	if !ex.tool.Tool.Version.Settings.Cacheable || ex.call.Workspace != nil {
		return false, nil
	}
	raw, ok, err := rn.store.Cache.Cached(ctx, ex.call.Principal.Org, rn.cacheKey(ex), time.Now())
	if err != nil || !ok {
		return false, err
	}
	var res haft.Result
	if err := json.Unmarshal(raw, &res); err != nil {
		return false, nil // of another time: as if there were none
	}
	res.Call, res.Cached, res.Usage, res.Timeline = ex.call.ID, true, haft.Usage{}, haft.Timeline{}
	ex.res = &res
	return true, errSettled
}

// cache keeps the value of a pure tool. It is redacted first, since it is kept.
func (rn *runner) cache(ctx context.Context, ex *execution) {
	settings := ex.tool.Tool.Version.Settings
	if !settings.Cacheable || ex.call.Workspace != nil || ex.res.Status != haft.StatusSuccess ||
		len(ex.res.Artifacts)+len(ex.res.Content) > 0 {
		return
	}
	res := *ex.res
	res.Call, res.Tool, res.Digest, res.Approval, res.Notices = "", "", "", "", nil // each call has its own
	ex.redactResult(&res)
	raw, err := json.Marshal(res)
	if err != nil {
		return
	}
	now, keep := time.Now(), settings.CacheFor.D()
	if keep <= 0 {
		keep = cacheFor
	}
	if err := rn.store.Cache.PutCached(ctx, ex.call.Principal.Org, rn.cacheKey(ex), raw, now,
		now.Add(keep)); err != nil {
		// A cache that cannot be written costs time and nothing else.
		rn.redaction.logOf(ex).Warn("a result cannot be cached", "call", ex.call.ID, "error", err)
	}
}
