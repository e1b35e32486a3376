package modal

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/modal-labs/modal-client/go"

	"haft/sandbox/internal/rented"
)

// Times for an answer. A machine is made in less than it takes to be seen as one that nobody knows.
const (
	answerTime = 30 * time.Second
	buildTime  = 10 * time.Minute
	createTime = 2 * time.Minute
	uploadTime = 10 * time.Minute
)

// maxLife is the longest life of a sandbox at Modal. maxListed bounds those that are looked at.
const (
	maxLife   = 24 * time.Hour
	maxListed = 1000
)

// The tags of sandboxes. Whoever uses the account can read them.
const (
	tagHaft    = "haft"
	tagOwner   = "haft_owner"
	tagState   = "haft_state" // the digest of tenant and configuration
	tagStarted = "haft_started"
	tagEnds    = "haft_ends"
)

// An account has the sandboxes of one token. It implements [rented.Renter].
type account struct {
	cfg    Config
	client *modal.Client
	lock   chan struct{} // full while the app is looked up
	app    *modal.App
	build  chan struct{} // full while the image is looked up, which may have to be built
	image  *modal.Image
}

// findApp returns the app of the sandboxes, or nil if there is none and it is not to be made.
func (a *account) findApp(ctx context.Context, create bool) (*modal.App, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return nil, problem(ctx.Err())
	}
	if a.app != nil {
		return a.app, nil
	}
	app, err := a.client.Apps.FromName(ctx, a.cfg.App, &modal.AppFromNameParams{CreateIfMissing: create})
	if _, missing := errors.AsType[modal.NotFoundError](err); missing && !create {
		return nil, nil
	}
	if err != nil {
		return nil, problem(err)
	}
	a.app = app
	return app, nil
}

// findImage returns the image, which Modal builds when it is asked for the first time.
func (a *account) findImage(ctx context.Context, app *modal.App) (*modal.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	select {
	case a.build <- struct{}{}:
		defer func() { <-a.build }()
	case <-ctx.Done():
		return nil, problem(ctx.Err())
	}
	if a.image == nil {
		image, err := a.client.Images.FromRegistry(a.cfg.Image, nil).Build(ctx, app, nil)
		if err != nil {
			return nil, problem(err)
		}
		a.image = image
	}
	return a.image, nil
}

// forget makes the next run look for app and image again: somebody may have removed them. It does not wait for a build.
func (a *account) forget(ctx context.Context) {
	select {
	case a.lock <- struct{}{}:
		a.app = nil
		<-a.lock
	case <-ctx.Done():
	}
	select {
	case a.build <- struct{}{}:
		a.image = nil
		<-a.build
	default:
	}
}

// Create implements [rented.Renter].
func (a *account) Create(ctx context.Context, want rented.Want) (rented.Machine, error) {
	app, err := a.findApp(ctx, true)
	if err != nil {
		return nil, err
	}
	image, err := a.findImage(ctx, app)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, createTime)
	defer cancel()
	now, life := time.Now(), min(maxLife, a.cfg.Life+min(want.Last, maxLife)).Truncate(time.Second)
	ends := now.Add(life)
	runtime := modal.SandboxRuntimeGVisor
	if a.cfg.VM {
		runtime = modal.SandboxRuntimeVM
	}
	sb, err := a.client.Sandboxes.Create(ctx, app, image, &modal.SandboxCreateParams{
		Timeout: life, IdleTimeout: (a.cfg.Idle + time.Minute).Truncate(time.Second), BlockNetwork: !want.Internet,
		Command: []string{"sleep", strconv.Itoa(int(maxLife / time.Second))}, Runtime: runtime,
		Tags: map[string]string{tagHaft: "1", tagOwner: a.cfg.Owner, tagState: want.State,
			tagStarted: strconv.FormatInt(now.Unix(), 10), tagEnds: strconv.FormatInt(ends.Unix(), 10)}})
	if err != nil {
		err = problem(err)
		if errors.Is(err, rented.ErrGone) {
			a.forget(ctx)
		}
		return nil, err
	}
	if !isID(sb.SandboxID) {
		return nil, broken("Modal gave a sandbox whose name is none")
	}
	return &machine{sb: sb, ends: ends}, nil
}

// clean ends everything but itself, and removes what a run had. Modal lists no processes.
const clean = `kill -9 -1; rm -rf /tmp/haft`

// Reuse implements [rented.Renter].
func (a *account) Reuse(ctx context.Context, i rented.Info) (rented.Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sb, err := a.client.Sandboxes.FromID(ctx, i.ID, nil)
	if err != nil {
		return nil, problem(err)
	}
	m := &machine{sb: sb, ends: i.Ends}
	if err := m.Last(ctx, 0); err != nil {
		return nil, err
	}
	return m, m.do(ctx, []string{"/bin/sh", "-c", clean}, strings.NewReader(""))
}

// List implements [rented.Renter].
func (a *account) List(ctx context.Context, owner, state string) ([]rented.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	app, err := a.findApp(ctx, false)
	if err != nil || app == nil {
		return nil, err
	}
	filter := map[string]string{tagHaft: "1"}
	for k, v := range map[string]string{tagOwner: owner, tagState: state} {
		if v != "" {
			filter[k] = v
		}
	}
	all, err := a.client.Sandboxes.List(ctx, &modal.SandboxListParams{AppID: app.AppID, Tags: filter})
	if err != nil {
		return nil, problem(err)
	}
	var list []rented.Info
	seen := 0
	for sb, err := range all {
		if seen++; seen > maxListed {
			break
		}
		var tags map[string]string
		if err == nil {
			tags, err = sb.GetTags(ctx, nil)
		}
		if err = problem(err); errors.Is(err, rented.ErrGone) {
			continue // it has just ended
		} else if err != nil {
			return nil, err
		}
		mine := isID(sb.SandboxID) // the server may not filter
		for k, v := range filter {
			mine = mine && tags[k] == v
		}
		if mine {
			list = append(list, rented.Info{ID: sb.SandboxID, Owner: tags[tagOwner], State: tags[tagState],
				Started: unix(tags[tagStarted]), Ends: unix(tags[tagEnds])})
		}
	}
	return list, nil
}

// unix reads a time from a tag; one that is none is long ago.
func unix(text string) time.Time {
	n, _ := strconv.ParseInt(text, 10, 64) // 0 if it is none
	return time.Unix(n, 0)
}

// End implements [rented.Renter].
func (a *account) End(ctx context.Context, id string) error {
	if !isID(id) {
		return invalid("this is not the name of a sandbox")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sb, err := a.client.Sandboxes.FromID(ctx, id, nil)
	if err == nil {
		_, err = sb.Terminate(ctx, nil)
	}
	if err = problem(err); errors.Is(err, rented.ErrGone) {
		return nil
	}
	return err
}

// isID reports whether text can be the id of a sandbox.
func isID(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}
