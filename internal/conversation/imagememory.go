package conversation

import (
	"context"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/model"
)

// The bounds of the images in the requests that this process makes at the same time. While a request is made, the
// content of its images is in memory several times: as bytes, in base64, and in the body.
const (
	maxImageMemory = 256_000_000      // bytes of content, of all organisations
	maxOrgImages   = 64_000_000       // of one
	firstImages    = 64_000_000       // that only organisations which hold none can take
	imageWait      = 10 * time.Second // for other requests to end
)

// imageMemory counts the bytes of images in requests.
type imageMemory struct {
	mu    sync.Mutex
	all   int64
	orgs  map[string]int64
	freed chan struct{} // is closed when bytes are given back; nil if nobody waits
}

// take takes n bytes for a request of an organisation. It waits a while for them, and reports whether it got them.
func (m *imageMemory) take(ctx context.Context, org string, n int64) bool {
	ctx, cancel := context.WithTimeout(ctx, imageWait)
	defer cancel()
	for {
		m.mu.Lock()
		most := int64(maxImageMemory)
		if m.orgs[org] > 0 { // a few organisations whose models hang do not take all
			most -= firstImages
		}
		if m.all+n <= most && m.orgs[org]+n <= maxOrgImages {
			m.all += n
			m.orgs[org] += n
			m.mu.Unlock()
			return true
		}
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		freed := m.freed
		m.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// give gives n bytes back.
func (m *imageMemory) give(org string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= n
	if m.orgs[org] -= n; m.orgs[org] == 0 {
		delete(m.orgs, org)
	}
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

// reserve takes memory for the images of a request, until the function that it returns is called. If there is none, it
// leaves the images out.
func (m *imageMemory) reserve(ctx context.Context, org string, req *model.Request) (release func()) {
	var n int64
	for i := range req.Messages {
		for _, f := range req.Messages[i].Images {
			n += f.Size
		}
	}
	if n == 0 {
		return func() {}
	}
	if !m.take(ctx, org, n) {
		leaveImagesOut(req.Messages)
		return func() {}
	}
	return func() { m.give(org, n) }
}

// dropContent removes the content of the images from the messages of a request.
func dropContent(list []haft.Message) {
	for i := range list {
		images := slices.Clone(list[i].Images)
		for j := range images {
			images[j].Data = nil
		}
		list[i].Images = images
	}
}

// leaveImagesOut removes the images from the messages of a request, whose text says so.
func leaveImagesOut(list []haft.Message) {
	for i := range list {
		all := list[i].Images
		list[i].Images = nil
		for _, f := range all {
			note(&list[i], f, whyBusy)
		}
	}
}
