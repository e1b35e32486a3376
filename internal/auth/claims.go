package auth

import (
	"slices"
	"strings"

	"haft"
)

// Claims says where in a token things are. A name that begins with / is a path
// into objects, such as /realm_access/roles; any other is the name of a claim.
type Claims struct {
	// Org is that of the organisation; empty means that all are of [Issuer.Org].
	Org string
	// User is that of the user; empty means sub.
	User string
	// Agent is that of the agent; empty means that there is none.
	Agent string
	// Roles is that of the roles, a list or one text; empty means that there are
	// none.
	Roles string
	// Scope is that of the scope, a list or one text with spaces; empty means
	// that [Issuer.Scope] is the scope. A token without the claim may do nothing.
	Scope string
}

// claim returns the claim at a name or path.
func claim(claims map[string]any, name string) (any, bool) {
	if !strings.HasPrefix(name, "/") {
		v, ok := claims[name]
		return v, ok
	}
	var v any = claims
	for part := range strings.SplitSeq(name[1:], "/") {
		object, _ := v.(map[string]any) // of anything else, nil, which has no names
		var ok bool
		if v, ok = object[part]; !ok {
			return nil, false
		}
	}
	return v, true
}

// identity makes an identity of verified claims. Roles and organisations count only as far
// as the issuer may name them.
func (i *issuer) identity(claims map[string]any) (Identity, bool) {
	p := haft.Principal{Org: i.Org}
	if i.Claims.Org != "" {
		org, ok := name(claims, i.Claims.Org)
		if !ok || !slices.Contains(i.Orgs, org) && !slices.Contains(i.Orgs, "*") {
			return Identity{}, false
		}
		p.Org = org
	}
	user, ok := name(claims, i.Claims.User)
	if !ok || !cleanText(i.UserPrefix+user) {
		return Identity{}, false
	}
	p.User = i.UserPrefix + user
	if i.Claims.Agent != "" {
		// A token without it is that of a user and not of an agent.
		if _, there := claim(claims, i.Claims.Agent); there {
			if p.Agent, ok = name(claims, i.Claims.Agent); !ok {
				return Identity{}, false
			}
		}
	}
	if p.Roles, ok = i.roles(claims); !ok {
		return Identity{}, false
	}
	scope, ok := i.scope(claims)
	if !ok {
		return Identity{}, false
	}
	p.Scope, p.Actions = splitScope(scope)
	return Identity{Principal: p, Issuer: i.URL, scope: scope}, true
}

// name returns a claim that is the name of something.
func name(claims map[string]any, at string) (string, bool) {
	v, _ := claim(claims, at)
	text, ok := v.(string)
	return text, ok && cleanText(text)
}

// roles returns the roles that the roles of the token are mapped to.
func (i *issuer) roles(claims map[string]any) ([]string, bool) {
	if i.Claims.Roles == "" {
		return nil, true
	}
	v, there := claim(claims, i.Claims.Roles)
	if !there {
		return nil, true
	}
	theirs, ok := textsOf(v)
	if !ok {
		return nil, false
	}
	var roles []string
	for _, r := range theirs {
		if ours, ok := i.Roles[r]; ok && !slices.Contains(roles, ours) {
			roles = append(roles, ours)
		}
	}
	return roles, true
}

// scope returns what the token is confined to: what of its own scope we know, as
// far as the issuer's goes.
func (i *issuer) scope(claims map[string]any) ([]string, bool) {
	if i.Claims.Scope == "" {
		return slices.Clone(i.Scope), true
	}
	scope := []string{}
	v, there := claim(claims, i.Claims.Scope)
	if !there {
		return scope, true
	}
	list, ok := textsOf(v)
	if !ok {
		return nil, false
	}
	if text, one := v.(string); one {
		list = strings.Fields(text)
	}
	for _, s := range list {
		known := isPermission(s) && cleanText(s) || haft.Action(s).Known()
		if known && (i.Scope == nil || covers(i.Scope, s)) {
			scope = append(scope, s)
		}
	}
	return scope, len(scope) <= maxScope
}
