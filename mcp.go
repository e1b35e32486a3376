package haft

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// MCPSeparator stands between the name of an MCP server and that of its tool, in
// names that every model vendor accepts: files__read_text. No server has it in
// its own name, so that no tool can be taken for another server's.
const MCPSeparator = "__"

// maxServerName leaves most of a tool's name to the tool.
const maxServerName = 32

// MCPTransport is how an MCP server is reached.
type MCPTransport string

// The transports.
const (
	MCPStdio MCPTransport = "stdio" // a command, in a sandbox
	MCPHTTP  MCPTransport = "http"  // streamable HTTP
	MCPSSE   MCPTransport = "sse"   // the HTTP of 2024-11-05
)

// MCPTransports lists every transport.
func MCPTransports() []MCPTransport { return []MCPTransport{MCPStdio, MCPHTTP, MCPSSE} }

// An MCPServer is an upstream server whose tools an organisation uses, each under
// the server's name.
type MCPServer struct {
	ID        string       `json:"id"`
	Org       string       `json:"org"`
	Name      string       `json:"name"`
	Transport MCPTransport `json:"transport"`
	// Command starts a server that speaks on its standard streams; npx and uvx
	// name a package, which is installed once and not by every start.
	Command []string `json:"command,omitempty"`
	// URL is where a server that speaks HTTP is.
	URL string `json:"url,omitempty"`
	// Headers go with every request and Env is a command's environment. Values are
	// kept encrypted and not shown again. {{ NAME }} in one stands for a variable
	// of the call: its agent's, its organisation's or its own.
	Headers map[string]string `json:"headers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// OAuth says how a person lets Haft act for him. Nil leaves it to the server to
	// ask for it.
	OAuth *MCPOAuth `json:"oauth,omitempty"`
	// Network names the hosts that a command may reach. Empty means none.
	Network []string `json:"network,omitempty"`
	// Mounts are directories of the host that a command sees, and no others.
	Mounts       []MCPMount   `json:"mounts,omitempty"`
	Requirements Requirements `json:"requirements,omitzero"`
	// Limits bound a command for as long as it lives; Wall bounds each call.
	Limits Limits `json:"limits,omitzero"`
	// Connect and List bound how long connecting and listing may take; 0 means 30
	// seconds each.
	Connect Millis `json:"connect_ms,omitempty"`
	List    Millis `json:"list_ms,omitempty"`
	// Disabled servers keep their tools, and calls of them are refused.
	Disabled bool      `json:"disabled,omitempty"`
	State    MCPState  `json:"state,omitzero"`
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"`
	// If is the revision that the one to be replaced must have, or [IfNone]. It is
	// for writing, and never kept.
	If string `json:"if_revision,omitempty"`
}

// Revision changes with every write of somebody, and not when tools are listed.
func (s MCPServer) Revision() string { return revision(s.Updated) }

// An MCPMount is a directory of the host inside a command's sandbox.
type MCPMount struct {
	// Dir is the host's directory, and Inside its path in the sandbox; empty means
	// the same.
	Dir      string `json:"dir"`
	Inside   string `json:"inside,omitempty"`
	Writable bool   `json:"writable,omitempty"`
}

// MCPOAuth are the settings of OAuth 2.1. All may be empty: what is needed is
// discovered and registered.
type MCPOAuth struct {
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is kept encrypted and not shown again.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

// MCPState is what is known of a server.
type MCPState struct {
	// Listed is when its tools were listed last, and Listing names that list.
	Listed  time.Time `json:"listed_at,omitzero"`
	Listing string    `json:"listing,omitempty"`
	// Protocol is the revision that it speaks.
	Protocol string `json:"protocol,omitempty"`
	// Title is what it calls itself.
	Title string `json:"title,omitempty"`
	Tools int    `json:"tools"`
	// Invalid are tools that cannot be called, and why.
	Invalid []MCPProblem `json:"invalid,omitempty"`
	// Error is why it could not be listed, or "".
	Error string `json:"error,omitempty"`
	// Login says that a person has to agree first.
	Login bool `json:"login_needed,omitempty"`
}

// An MCPProblem says why a tool of a server cannot be called.
type MCPProblem struct {
	Tool    string   `json:"tool"`
	Reasons []string `json:"reasons"`
}

// An MCPTool is a tool as its server lists it.
type MCPTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input_schema"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
	Annotations Annotations     `json:"annotations,omitzero"`
}

// An MCPListing is what a server says of itself and of its tools.
type MCPListing struct {
	Title    string    `json:"title,omitempty"`
	Protocol string    `json:"protocol,omitempty"`
	Tools    []MCPTool `json:"tools"`
	// Problems are tools that were listed in a way that nobody can use.
	Problems []MCPProblem `json:"problems,omitempty"`
}

// Digest names the list by its content.
func (l MCPListing) Digest() string {
	text, err := json.Marshal(l.Tools)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// An MCPChange says what became of a server's tools when they were listed. The
// names are those of Haft's tools.
type MCPChange struct {
	Server MCPServer `json:"server"`
	// Added, Changed and Removed are tools by name. One of Waiting is among the
	// first two, and is called as before, or not at all if it is new, until a
	// person has looked at what it says now.
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
	// Warnings are for the person who reviews the list.
	Warnings []string `json:"warnings,omitempty"`
}

// An MCPAnswer is what the redirect of a login came with.
type MCPAnswer struct {
	State  string `json:"state"`
	Code   string `json:"code,omitempty"`
	Issuer string `json:"iss,omitempty"`
	// Error is what the authorisation server says if the person did not agree.
	Error string `json:"error,omitempty"`
}

// MCPServers are kept, listed and logged in at. APIs that offer them find out by
// type assertion whether a [Service] does.
type MCPServers interface {
	MCPLogin
	// MCPServer returns the server of that name or id, or [CodeNotFound]. Values
	// of headers and variables are not shown.
	MCPServer(ctx context.Context, p Principal, ref string) (*MCPServer, error)
	// MCPServerList lists the servers of p's organisation, ordered by name.
	MCPServerList(ctx context.Context, p Principal) iter.Seq2[MCPServer, error]
	// PutMCPServer adds a server, or replaces the one of that name if it is what s.If
	// says and else returns [CodeConflict], and lists its tools, which are accepted as
	// they are. A value that is empty keeps the one that is there. A server that
	// cannot be listed is kept all the same, and its State says why.
	PutMCPServer(ctx context.Context, p Principal, s MCPServer) (*MCPChange, error)
	// RefreshMCPServer lists the tools of a server again. What is new or changed
	// waits for review, unless accept.
	RefreshMCPServer(ctx context.Context, p Principal, ref string, accept bool) (*MCPChange, error)
	// RemoveMCPServer removes a server with its tools and credentials, or returns
	// [CodeNotFound], or [CodeConflict] if it is not of that revision; empty means any.
	RemoveMCPServer(ctx context.Context, p Principal, ref, revision string) error
}

// MCPLogin lets a person agree that Haft acts for him at a server.
type MCPLogin interface {
	// LoginMCPServer returns the link that the person has to open, or "" if the
	// server wants no login. The authorisation server then leads him to redirect,
	// an address of the caller's on this machine or with https.
	LoginMCPServer(ctx context.Context, p Principal, ref, redirect string) (string, error)
	// FinishMCPLogin ends a login with the answer of the authorization server. The principal must be the one
	// that began it.
	FinishMCPLogin(ctx context.Context, p Principal, a MCPAnswer) error
}

// CheckServerName reports why name cannot be the name of an MCP server.
func CheckServerName(name string) error {
	switch {
	case len(name) > maxServerName:
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf("the name of a server has at most %d characters",
			maxServerName)}
	case CheckToolName(name) != nil, strings.Contains(name, MCPSeparator), strings.HasSuffix(name, "_"),
		strings.HasPrefix(name, "_"):
		return &Error{Code: CodeInvalid, Message: "the name of a server starts with a letter, holds only letters, " +
			"digits, - and single _, and does not end with _"}
	}
	return nil
}

// MCPToolName returns the name of a server's tool here. What vendors do not accept
// in a name is replaced; then, and where the name would be too long, a part of
// the digest of the tool's own name keeps it apart from others.
func MCPToolName(server, tool string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, tool)
	name := server + MCPSeparator + clean
	if clean == tool && len(name) <= MaxToolName {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), MaxToolName-len(suffix))] + suffix
}

// ServerOf returns the name of the server that a tool's name begins with, or "".
func ServerOf(tool string) string {
	if server, _, ok := strings.Cut(tool, MCPSeparator); ok && CheckServerName(server) == nil {
		return server
	}
	return ""
}

// Audience names whom the credentials of a server are for: the origin of its address,
// which is scheme, host and port; or else its command with its requirements, and the hosts
// and directories that the command can send or write them to. They go to nobody else, and
// are dropped when the audience changes.
func (s MCPServer) Audience() string {
	if s.URL == "" {
		return "command " + s.reach()
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return URLOrigin(u)
}

// reach names what a command is and what it can reach. The order of hosts and mounts does
// not matter.
func (s MCPServer) reach() string {
	mounts := slices.Clone(s.Mounts)
	for i := range mounts {
		mounts[i].Inside = cmp.Or(mounts[i].Inside, mounts[i].Dir)
	}
	slices.SortFunc(mounts, func(a, b MCPMount) int { return strings.Compare(a.Inside, b.Inside) })
	text, err := json.Marshal(struct {
		Origin  string
		Network []string
		Mounts  []MCPMount
	}{s.Origin(), append([]string{}, slices.Sorted(slices.Values(s.Network))...), append([]MCPMount{}, mounts...)})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// URLOrigin returns scheme, host and port of an address in one spelling, or "" if it has
// no host.
func URLOrigin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if u.Hostname() == "" {
		return ""
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port)
}

// Origin names what a server is: how it is reached or started, and not with which
// credentials. A tool of another origin is another tool.
func (s MCPServer) Origin() string {
	text, err := json.Marshal(struct {
		Transport MCPTransport
		Command   []string
		URL       string
		Needs     Requirements
	}{s.Transport, append([]string(nil), s.Command...), s.URL, s.Requirements}) // none and empty are the same
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
