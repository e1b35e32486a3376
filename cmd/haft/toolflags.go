package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/requirement"
)

// draftFlags are what the command line says about a tool that its file does not.
// What is not given leaves the file's word.
type draftFlags struct {
	name, description, category string
	tags, network, roles        []string
	secrets                     []string
	validators, requirements    []string
	needFiles                   []string
	timeout, cacheFor           time.Duration
	memory                      size
	retry, concurrency          int
	maxChars                    int
	rate                        string
	isolation, fallback, output string
	sandbox                     string
	approval, parallel          bool
	idempotent, cacheable       bool
	fresh                       bool
}

// add declares the flags.
func (d *draftFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.name, "name", "", "what the tool is called; that of the function if empty")
	f.StringVar(&d.description, "description", "", "what it does; the documentation of the function if empty")
	f.StringVar(&d.category, "category", "", "a category")
	f.StringArrayVar(&d.tags, "tag", nil, "a tag; may be given again")
	f.DurationVar(&d.timeout, "timeout", 0, "how long one run may take (30s)")
	f.Var(&d.memory, "memory", "how much memory it may use")
	f.StringSliceVar(&d.network, "network", nil, "a `HOST` that it may reach; may be given again")
	f.StringArrayVar(&d.secrets, "secret", nil,
		"the `NAME` of a variable that it cannot do without; may be given again")
	f.StringArrayVar(&d.roles, "for-role", nil, "a role of which callers must have one; may be given again")
	f.BoolVar(&d.approval, "requires-approval", false, "a person has to agree to every call")
	f.BoolVar(&d.parallel, "parallel", false, "calls of one batch may run beside each other")
	f.BoolVar(&d.idempotent, "idempotent", false, "it may run twice where nobody knows whether the first run happened")
	f.BoolVar(&d.cacheable, "cacheable", false, "equal arguments give equal values")
	f.DurationVar(&d.cacheFor, "cache-for", 0, "how long values are kept (1h)")
	f.IntVar(&d.retry, "retry", 0, "how often it is tried in all, where a failure may pass")
	f.StringVar(&d.rate, "rate", "", "how often one user may call it: `N/s`, N/m or N/h, with :BURST")
	f.IntVar(&d.concurrency, "concurrency", 0, "how many calls of it may run at once")
	f.StringVar(&d.isolation, "min-isolation", "", "refuse to run it with less: reduced, namespaces, kernel or machine")
	f.StringVar(&d.sandbox, "sandbox", "", "the sandbox it runs in")
	f.StringVar(&d.fallback, "fallback", "", "a `TOOL` that answers when this one has failed")
	f.StringVar(&d.output, "output", "", "read what it gives back as json, text, number, boolean or list")
	f.StringArrayVar(&d.validators, "validator", nil, "an `EXPR` over value that must be true; may be given again")
	f.IntVar(&d.maxChars, "max-chars", 0, "cut values that are longer")
	f.StringArrayVar(&d.requirements, "requirement", nil,
		"a package it needs, such as requests==2.32.3; may be given again")
	f.StringArrayVar(&d.needFiles, "requirements", nil,
		"a `FILE` that names packages: requirements.txt, pyproject.toml or package.json; may be given again")
	f.BoolVar(&d.fresh, "new", false, "refuse to add a version to a tool that exists")
}

// apply puts what was given into a draft. A flag that was not given changes
// nothing.
func (d *draftFlags) apply(cmd *cobra.Command, to *haft.Draft) error {
	given := cmd.Flags().Changed
	s := &to.Settings
	for name, set := range map[string]func(){
		"name": func() { to.Name = d.name }, "description": func() { to.Description = d.description },
		"category": func() { to.Category = d.category }, "tag": func() { to.Tags = d.tags },
		"new":     func() { to.New = d.fresh },
		"timeout": func() { s.Limits.Wall = haft.Millis(d.timeout) },
		"memory":  func() { s.Limits.Memory = int64(d.memory) },
		"network": func() { s.Network = d.network }, "for-role": func() { s.Roles = d.roles },
		"secret":            func() { s.Secrets = d.secrets },
		"requires-approval": func() { s.RequiresApproval = d.approval }, "parallel": func() { s.Parallel = d.parallel },
		"idempotent": func() { s.Idempotent = d.idempotent }, "cacheable": func() { s.Cacheable = d.cacheable },
		"cache-for": func() { s.CacheFor = haft.Millis(d.cacheFor) }, "retry": func() { s.Retry.Tries = d.retry },
		"concurrency":   func() { s.Concurrency = d.concurrency },
		"min-isolation": func() { s.MinIsolation = haft.Level(d.isolation) },
		"sandbox":       func() { s.Sandbox = d.sandbox }, "fallback": func() { s.Fallback = d.fallback },
		"output":    func() { s.Output.Type = haft.OutputType(d.output) },
		"validator": func() { s.Output.Validators = d.validators },
		"max-chars": func() { s.Output.MaxChars = d.maxChars },
	} {
		if given(name) {
			set()
		}
	}
	if given("rate") {
		r, err := parseRate(d.rate)
		if err != nil {
			return usage(err)
		}
		s.Rate = r
	}
	if given("requirement") {
		to.Needs = needs(to.Kind, d.requirements)
	}
	if given("requirements") {
		var sets []requirement.Set
		for _, name := range d.needFiles {
			s, err := readNeeds(name)
			if err != nil {
				return err
			}
			sets = append(sets, s)
		}
		more, err := together(sets)
		if err != nil {
			return err
		}
		addNeeds(to, more)
	}
	return nil
}

// needs sorts packages by who installs them.
func needs(kind haft.Kind, list []string) haft.Requirements {
	var n haft.Requirements
	for _, r := range list {
		if name, ok := strings.CutPrefix(r, "npm:"); ok {
			n.NPM = append(n.NPM, name)
			continue
		}
		name, pip := strings.CutPrefix(r, "pip:")
		if !pip && (kind == haft.KindTypeScript || kind == haft.KindJavaScript) {
			n.NPM = append(n.NPM, name)
			continue
		}
		n.Pip = append(n.Pip, name)
	}
	return n
}

// parseRate reads N/s, N/m or N/h, with :BURST behind it.
func parseRate(text string) (haft.Rate, error) {
	wrong := errors.New("--rate is N/s, N/m or N/h, with :BURST behind it where so many may come at once")
	text, burst, bursts := strings.Cut(text, ":")
	count, unit, ok := strings.Cut(text, "/")
	per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(count, 64)
	if !ok || per == 0 || err != nil || !(n > 0 && n < 1e9) {
		return haft.Rate{}, wrong
	}
	r := haft.Rate{PerSecond: n / per}
	if bursts {
		if r.Burst, err = strconv.Atoi(burst); err != nil || r.Burst < 1 {
			return haft.Rate{}, wrong
		}
	}
	return r, nil
}

// settingsText says in a line how a version is run, as far as it is not the
// default.
func settingsText(s haft.Settings) string {
	var parts []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.RequiresApproval, "requires approval")
	add(s.Limits.Wall > 0, "timeout %s", s.Limits.Wall)
	add(s.Limits.Memory > 0, "memory %d MiB", s.Limits.Memory>>20)
	add(len(s.Network) > 0, "network %s", strings.Join(s.Network, " "))
	add(len(s.Secrets) > 0, "secrets %s", strings.Join(s.Secrets, " "))
	add(len(s.Roles) > 0, "for roles %s", strings.Join(s.Roles, " "))
	add(s.Parallel, "parallel")
	add(s.Idempotent, "idempotent")
	add(s.Cacheable, "cacheable")
	add(s.Retry.Tries > 1, "%d tries", s.Retry.Tries)
	add(s.Rate.PerSecond > 0, "rate %.3g/s", s.Rate.PerSecond)
	add(s.Concurrency > 0, "concurrency %d", s.Concurrency)
	add(s.MinIsolation != "", "isolation %s", s.MinIsolation)
	add(s.Sandbox != "", "sandbox %s", s.Sandbox)
	add(s.Fallback != "", "fallback %s", s.Fallback)
	add(s.Output.Type != "", "output %s", s.Output.Type)
	add(len(s.Output.Validators) > 0, "%d validators", len(s.Output.Validators))
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
