package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"haft"
	"haft/internal/callenv"
	"haft/internal/secret"
)

// Credentials fetches variables for a call from elsewhere.
type Credentials interface {
	Fetch(ctx context.Context, who haft.Principal, tool haft.Tool, call haft.CallID) ([]secret.Named, error)
}

// fetch asks for credentials right before the call runs: not for calls that are
// refused, and not before a person has agreed. If they cannot be fetched, tools
// that said what they need are not run, and others with a notice.
func (rn *runner) fetch(ctx context.Context, ex *execution) error {
	needs := ex.tool.Tool.Version.Settings.Secrets
	if rn.cfg.Credentials != nil {
		who := ex.call.Principal
		if ex.agent != nil {
			who.Agent = string(ex.agent.ID)
		}
		values, err := rn.cfg.Credentials.Fetch(ctx, who, ex.tool.Tool, ex.call.ID)
		switch {
		case err == nil:
			if err := rn.env.AddFetched(&ex.env, values, ex.agent, ex.call.Env); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			rn.redaction.logOf(ex).Warn("credentials of a call cannot be had", "call", ex.call.ID, "org", who.Org,
				"tool", ex.tool.Tool.Name, "error", err)
			// What is stored for the organisation is not asked: the webhook's
			// would have replaced it.
			if name := callenv.Missing(needs, ex.env.AboveWebhook(ex.agent, ex.call.Env)); name != "" {
				r := refuse(haft.StatusError, haft.FailRuntime, haft.RetrySame,
					"the tool needs the variable "+name+", and "+haft.MessageOf(err))
				r.cause = err
				return r
			}
			ex.notices = append(ex.notices, "credentials: "+haft.MessageOf(err)+"; the tool ran without them")
		}
	}
	if name := callenv.Missing(needs, ex.env.Vars); name != "" {
		return refuse(haft.StatusError, haft.FailRuntime, haft.RetryNever,
			"the tool needs the variable "+name+", which is not set: set it for the organisation or the agent, or "+
				"give it with the call: haft secret set "+name)
	}
	return nil
}

// noteUnreached notes that a secret which the tool needs can get nowhere, since
// the tool may not reach its hosts.
func (ex *execution) noteUnreached(name string) {
	b, ok := ex.env.Bound[name]
	if !ok || !slices.Contains(ex.tool.Tool.Version.Settings.Secrets, name) {
		return
	}
	hosts := strings.Join(b.To.Hosts, ", ")
	ex.notices = append(ex.notices, fmt.Sprintf("secrets: %s goes to %s and nowhere else, which the tool may not "+
		"reach: its network list needs a rule for that", name, hosts))
}

// failOnMissingTokens refuses the call if a token that the tool needs could not be fetched, and
// notes others.
func (ex *execution) failOnMissingTokens(failed map[string]error) error {
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		err := failed[name]
		if slices.Contains(ex.tool.Tool.Version.Settings.Secrets, name) {
			r := refuse(haft.StatusError, haft.FailRuntime, haft.RetrySame,
				"the tool needs the secret "+name+", and "+haft.MessageOf(err))
			r.cause = err
			return r
		}
		ex.notices = append(ex.notices, "secrets: "+name+": "+haft.MessageOf(err)+"; requests with it fail")
	}
	return nil
}
