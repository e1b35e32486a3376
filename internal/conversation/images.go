package conversation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"haft"
	"haft/internal/model"
	"haft/internal/modelapi"
)

// The bounds of the images of tools. Those of one file and of one request are of package modelapi.
const (
	maxStepImages = 8         // of the answers of one step
	maxStepBytes  = 8_000_000 // of those together
	maxArtifacts  = 64        // of one call that are looked at
	maxNotes      = 8         // of one call that say why an image is not shown
	imageTokens   = 1600      // about what vendors count for one image; they make larger ones smaller
)

// Why the model is not shown an image of an earlier answer.
const (
	whyBlind   = "this model is not sent images"
	whyRefused = "the model refused the images of this conversation"
	whyNewer   = "newer images are shown instead"
	whyGone    = "it is not kept any more"
	whyUnread  = "it cannot be read now"
	whyBusy    = "this server is sending too many images now"
)

// A foundImage is an artifact that is an image, or that its tool declares as one. why is empty if models can be sent
// it.
type foundImage struct {
	haft.MessageImage
	why string
}

// findImages looks for images among the artifacts of a result. What an artifact is, is read from its content.
func (r *run) findImages(ctx context.Context, res *haft.Result) (list []foundImage) {
	if r.s.cfg.Artifacts == nil || res == nil || res.Status != haft.StatusSuccess {
		return nil
	}
	var rec *haft.Record
	for _, a := range res.Artifacts[:min(len(res.Artifacts), maxArtifacts)] {
		if !forModels(res.Content, a.Name) {
			continue
		}
		f := foundImage{MessageImage: haft.MessageImage{Call: res.Call, Name: a.Name, Size: a.Size}}
		var kind string
		in, err := io.Reader(bytes.NewReader(a.Data)), error(nil)
		if int64(len(a.Data)) != a.Size {
			in, err = r.openArtifact(ctx, &rec, res.Call, a.Name)
		}
		if err != nil {
			f.why = whyUnopened(err)
		} else if kind, err = modelapi.CheckImage(io.LimitReader(in, modelapi.MaxMediaFile)); err != nil {
			f.why = err.Error()
		}
		switch f.ContentType = cmp.Or(kind, a.ContentType); {
		case err != nil && !strings.HasPrefix(strings.ToLower(a.ContentType), "image/"):
			continue
		case err == nil && a.Size > modelapi.MaxMediaFile:
			f.why = "it is too large"
		}
		list = append(list, f)
	}
	return list
}

// forModels reports whether an artifact is for models: a tool can say that a part of its content is for the user only.
func forModels(content []haft.Content, name string) bool {
	return !slices.ContainsFunc(content, func(c haft.Content) bool {
		return c.Artifact == name && len(c.Audience) > 0 && !slices.Contains(c.Audience, "assistant")
	})
}

// openArtifact opens an artifact of a call that the sender of the turn may see. rec is the record of the call, once it
// is known.
func (r *run) openArtifact(ctx context.Context, rec **haft.Record, call haft.CallID, name string) (io.Reader, error) {
	if *rec == nil || (*rec).Call.ID != call {
		found, err := r.s.cfg.Calls.Seen(ctx, r.turn.Principal, call, haft.CallsRead, haft.CallsWrite)
		if err != nil {
			return nil, err
		}
		*rec = found
	}
	_, in, err := r.s.cfg.Artifacts.ArtifactOf(ctx, *rec, name)
	return in, err
}

// An imageBudget is how many images may still be sent.
type imageBudget struct {
	n     int
	bytes int64
}

// take takes an image of the budget, and reports whether it fits.
func (b *imageBudget) take(m haft.MessageImage) bool {
	if b.n <= 0 || m.Size > b.bytes {
		return false
	}
	b.n--
	b.bytes -= m.Size
	return true
}

// stepBudget is what is left of the images of a step for calls that have no answer yet.
func stepBudget(answers []haft.Message) imageBudget {
	b := imageBudget{maxStepImages, maxStepBytes}
	for i := range answers {
		for _, m := range answers[i].Images {
			b.take(m)
		}
	}
	return b
}

// addImages adds images to the answer of a call, and names them in its text. Vendors take none in the answer of a call
// that failed.
func addImages(m *haft.Message, found []foundImage, left *imageBudget) {
	if m.Status != haft.StatusSuccess || len(found) == 0 {
		return
	}
	if m.Text == "null" {
		m.Text = "" // the images say more
	}
	refused := 0
	for _, f := range found {
		if f.why == "" && !left.take(f.MessageImage) {
			f.why = "there are too many images in this step"
		}
		if f.why == "" {
			m.Images = append(m.Images, f.MessageImage)
		} else if refused++; refused > maxNotes {
			continue
		}
		note(m, f.MessageImage, f.why)
	}
	if more := refused - maxNotes; more > 0 {
		m.Text += "\n[more images are not shown]"
	}
}

// note says in the text of an answer that it has an image, or why the image is not shown.
func note(m *haft.Message, f haft.MessageImage, why string) {
	a := haft.Artifact{Name: f.Name, Size: f.Size}
	m.Text = strings.TrimPrefix(m.Text+"\n"+modelapi.ImageNote(a, f.ContentType, why), "\n")
}

// chooseImages leaves those images in the answers that the model gets: the newest, as many as one request takes. The
// text of an answer says which of its images are not shown. The messages of groups are not changed.
func (r *run) chooseImages(groups [][]haft.Message) [][]haft.Message {
	left := imageBudget{modelapi.MaxMedia, modelapi.MaxMediaBytes}
	for g := range slices.Backward(groups) {
		if !slices.ContainsFunc(groups[g], func(m haft.Message) bool { return len(m.Images) > 0 }) {
			continue
		}
		groups[g] = slices.Clone(groups[g])
		for i := range slices.Backward(groups[g]) {
			r.chooseOf(&groups[g][i], &left)
		}
	}
	return groups
}

// chooseOf leaves the images in an answer that the model gets.
func (r *run) chooseOf(m *haft.Message, left *imageBudget) {
	all := m.Images
	m.Images = nil
	for _, f := range all {
		why := ""
		switch {
		case len(r.model.Images) == 0:
			why = whyBlind
		case r.blind:
			why = whyRefused
		case !slices.Contains(r.model.Images, f.ContentType):
			why = "this model takes no " + f.ContentType
		case !left.take(f):
			why = whyNewer
		default:
			m.Images = append(m.Images, f)
			continue
		}
		note(m, f, why)
	}
}

// loadImages reads the content of the images of a request. Of one that is not there any more the text of the answer
// says so.
func (r *run) loadImages(req *model.Request) {
	var rec *haft.Record
	for i := range req.Messages {
		m := &req.Messages[i]
		all := m.Images
		m.Images = nil
		for _, f := range all {
			var err error
			if f.Data, err = r.loadImage(&rec, f); err != nil {
				if haft.CodeOf(err) != haft.CodeNotFound && r.ctx.Err() == nil {
					r.s.cfg.Logger.Warn("an image of a turn cannot be read", "turn", r.id, "call", f.Call, "error", err)
				}
				note(m, f, whyUnopened(err))
				continue
			}
			m.Images = append(m.Images, f)
		}
	}
}

// errOther is the error of an artifact that is not what it was.
var errOther = errors.New("the artifact is not the image that it was")

// whyUnopened says why an image could not be opened: it is gone, or its storage did not answer.
func whyUnopened(err error) string {
	if errors.Is(err, errOther) || haft.CodeOf(err) == haft.CodeNotFound {
		return whyGone
	}
	return whyUnread
}

// loadImage reads the content of an image.
func (r *run) loadImage(rec **haft.Record, f haft.MessageImage) ([]byte, error) {
	if r.s.cfg.Artifacts == nil {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "artifacts are not kept here"}
	}
	in, err := r.openArtifact(r.ctx, rec, f.Call, f.Name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, modelapi.MaxMediaFile+1))
	if err != nil {
		return nil, err
	}
	if kind, err := modelapi.CheckImage(bytes.NewReader(data)); err != nil || kind != f.ContentType ||
		int64(len(data)) != f.Size {
		return nil, errOther
	}
	return data, nil
}

// goBlind reports whether a request is to be made again without images: the vendor refused it, and it had some. Without
// that one image that the vendor cannot read would end every turn of the conversation.
func (r *run) goBlind(req model.Request, err error) bool {
	f, ok := errors.AsType[*model.Fault](err)
	if !ok || r.blind || f.Kind != model.RefusedRequest && f.Kind != model.TooLong ||
		!slices.ContainsFunc(req.Messages, func(m haft.Message) bool { return len(m.Images) > 0 }) {
		return false
	}
	r.blind = true
	r.publish(haft.TurnEvent{Notice: "the model did not take a request with images; it is asked without them"}, true)
	return true
}
