package conversation

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"haft"
)

// The bounds of answers that are not kept yet.
const (
	lateAfter = 20 * time.Millisecond // is how long the first of them waits for the next message of the turn
	together  = 64                    // messages that are kept at once, if they come by themselves
)

// An outbox has answers to calls that are in no store yet: they are kept together with what the model says next, or a
// moment later. A process that ends before has lost nothing, since the record of each call has what its answer is
// made of.
type outbox struct {
	mu    sync.Mutex // is locked while messages are written, so that they are published in their order
	list  []haft.Message
	turn  haft.Turn // as it stands with them
	timer *time.Timer
}

// answered notes the answer to a call, which is kept soon. Precondition: the lock of the batch is locked.
func (r *run) answered(m haft.Message) {
	m.Agent, m.Turn = r.turn.Agent, r.id
	r.own = append(r.own, m)
	o := &r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	r.turn.Usage = r.purse.total()
	o.list, o.turn = append(o.list, m), r.turn
	if len(o.list) == 1 {
		o.timer = time.AfterFunc(lateAfter, r.flushLate)
	}
}

// flushLate is flush beside the work on the turn.
func (r *run) flushLate() {
	_ = r.guard(r.flush) // what fails is tried again, or ends the work
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if len(r.out.list) > 0 && r.ctx.Err() == nil {
		r.out.timer.Reset(answering)
	}
}

// flushLast is flush at the end of the work.
func (r *run) flushLast() error {
	err := r.guard(r.flush)
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.out.list = nil
	return err
}

// flush keeps the answers that are in no store yet. The work on the turn ends if they cannot be kept.
func (r *run) flush() error {
	o := &r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) == 0 {
		return nil
	}
	_, err := r.write(o.turn)
	if _, ends := errors.AsType[*ending](err); ends || errors.Is(err, errLost) {
		r.cancel(err)
	}
	return err
}

// write keeps messages behind those that are in no store yet, and how the turn stands, and tells of them. It returns
// those of list as they are kept. Precondition: the lock of the outbox is locked.
func (r *run) write(t haft.Turn, list ...haft.Message) ([]haft.Message, error) {
	o := &r.out
	if len(list) > 0 && len(o.list)+len(list) > together {
		if _, err := r.write(o.turn); err != nil {
			return nil, err
		}
	}
	late := len(o.list)
	kept, err := r.s.cfg.Turns.AdvanceTurn(r.base, r.owner, t, append(o.list[:late:late], list...)...)
	code := haft.CodeOf(err)
	if late > 0 && (err == nil || code == haft.CodeInvalid) {
		o.timer.Stop()
		o.list = nil
	}
	switch code {
	case "":
	case haft.CodeConflict, haft.CodeNotFound:
		return nil, fmt.Errorf("%w: %w", errLost, err)
	case haft.CodeInvalid:
		return nil, &ending{stop: haft.StopInternal, why: "a message cannot be kept: " + haft.MessageOf(err)}
	default:
		return nil, fmt.Errorf("keep what happened in the turn: %w", err)
	}
	if len(kept) > 0 {
		r.s.progressed(r.id)
	}
	for i := range kept {
		r.publish(haft.TurnEvent{Message: &kept[i]}, false)
	}
	return kept[late:], nil
}
