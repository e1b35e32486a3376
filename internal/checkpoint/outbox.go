package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"haft"
	"haft/internal/audit"
)

// An outbox sends checkpoints to a sink, in order, until it has taken them. It holds none of
// them: what was not sent is read from the database again, so nothing is dropped and nothing
// grows, however long the sink is away.
type outbox struct {
	k      *Keeper
	sink   Sink
	awake  chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	ending chan struct{}

	mu   sync.Mutex
	sent int64
	tip  int64
	err  error
}

const (
	// sentFile is where the outbox keeps how far it came.
	sentFile = "audit.sent"
	// sendMost is how many checkpoints are sent at once.
	sendMost = 500
	// sendRetry is the first wait after a failure, and sendRetryMost the longest.
	sendRetry, sendRetryMost = time.Second, time.Minute
	// lastSend is how long the end of the process waits for the sink.
	lastSend = 5 * time.Second
)

// position is what sentFile has.
type position struct {
	Sink   string `json:"sink"`
	Serial int64  `json:"serial"`
}

// openOutbox begins to send. A sink that can be read must not know more than the database:
// then both the database and the file of the heads were put back.
func openOutbox(ctx context.Context, k *Keeper, sink Sink) (*outbox, error) {
	o := &outbox{k: k, sink: sink, awake: make(chan struct{}, 1), done: make(chan struct{}),
		ending: make(chan struct{})}
	if data, err := readFile(k.cfg.Dir, sentFile, 4096); err != nil {
		return nil, err
	} else if data != nil {
		var p position
		if json.Unmarshal(data, &p) == nil && p.Sink == sink.Name() {
			o.sent = p.Serial
		}
	}
	var known audit.Tip
	if err := k.sinkKnown(sink, false, func(c audit.Checkpoint) {
		if c.Place.Serial > known.Serial {
			known = c.Tip()
		}
	}); err != nil {
		return nil, err
	}
	if known.Serial > 0 {
		if err := k.hasTip(ctx, known); err != nil {
			return nil, err
		}
		o.sent = known.Serial
	}
	o.sent, o.tip = min(o.sent, k.tip.Serial), k.tip.Serial
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	go o.run(own)
	o.wake()
	return o, nil
}

// sinkKnown yields what a sink has. Who can write to the sink is not who can sign: a line
// that no trusted key signed is an error, and nothing of the sink counts then.
func (k *Keeper) sinkKnown(sink Sink, all bool, yield func(audit.Checkpoint)) error {
	var bad *audit.Checkpoint
	err := sink.Known(all, func(c audit.Checkpoint) {
		switch {
		case bad != nil:
		case c.Check(k.keys) != "":
			bad = &c
		default:
			yield(c)
		}
	})
	if err != nil || bad == nil {
		return err
	}
	return &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
		"the audit sink has a line, checkpoint %d, that no trusted key signed: somebody else wrote to it, or the "+
			"public key %.16q is missing in "+
			"audit.keys in the data directory; add that key, or keep the file as evidence and start with another one",
		bad.Place.Serial, bad.Key)}
}

// hasTip reports that the database does not have a checkpoint, and that no person gave it
// up.
func (k *Keeper) hasTip(ctx context.Context, tip audit.Tip) error {
	list, err := k.cfg.Store.Audit.ChainedFrom(ctx, tip.Serial, 1)
	if err != nil {
		return err
	}
	if len(list) > 0 && (list[0].Tip() == tip ||
		list[0].Place.Lost != nil && list[0].Place.Serial > tip.Serial && list[0].Check(k.keys) == "") {
		return nil
	}
	return damaged(tip.Serial,
		"the audit sink has checkpoint %d, and the database has not: the database and %s were both put back",
		tip.Serial, HeadFile)
}

// wake has the outbox look for what to send. Precondition: the lock of the keeper is taken,
// or nobody else has it yet.
func (o *outbox) wake() {
	o.mu.Lock()
	o.tip = o.k.tip.Serial
	o.mu.Unlock()
	select {
	case o.awake <- struct{}{}:
	default:
	}
}

// stats returns how many checkpoints are to be sent, and why they are not.
func (o *outbox) stats() (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, o.tip-o.sent), o.err
}

// run sends until close ends it.
func (o *outbox) run(ctx context.Context) {
	defer close(o.done)
	wait := sendRetry
	for {
		select {
		case <-o.awake:
		case <-o.ending:
			_ = o.send(ctx) // what is not taken is sent by the next process
			return
		case <-ctx.Done():
			return
		}
		for o.try(ctx) != nil {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-o.ending:
				timer.Stop()
				return // it has just failed
			case <-ctx.Done():
				timer.Stop()
				return
			}
			wait = min(2*wait, sendRetryMost)
		}
		wait = sendRetry
	}
}

// try sends, and says in the log when it begins to fail and when it works again.
func (o *outbox) try(ctx context.Context) error {
	err := o.send(ctx)
	o.mu.Lock()
	before := o.err
	o.err = err
	pending := o.tip - o.sent
	o.mu.Unlock()
	switch {
	case err != nil && ctx.Err() == nil:
		o.k.cfg.Logger.Error(
			"the audit sink does not take checkpoints; they are kept and sent later", "pending", pending, "error", err)
	case err == nil && before != nil:
		o.k.cfg.Logger.Info("the audit sink takes checkpoints again")
	}
	return err
}

// send sends all that the keeper knows of.
func (o *outbox) send(ctx context.Context) error {
	for {
		o.mu.Lock()
		sent, tip := o.sent, o.tip
		o.mu.Unlock()
		if sent >= tip {
			return nil
		}
		list, err := o.k.cfg.Store.Audit.ChainedFrom(ctx, sent+1, sendMost)
		if err != nil {
			return err
		}
		var lines bytes.Buffer
		out := json.NewEncoder(&lines)
		last := sent
		for _, c := range list {
			if c.Place.Serial > tip {
				break // it is not verified yet
			}
			if err := out.Encode(audit.CheckpointLine{Checkpoint: &c}); err != nil {
				return fmt.Errorf("encode a checkpoint: %w", err)
			}
			last = c.Place.Serial
		}
		if last == sent {
			return &haft.Error{Code: haft.CodeConflict,
				Message: "checkpoints that the audit sink has yet to get are not in the database any more"}
		}
		if err := o.deliver(ctx, lines.Bytes(), last); err != nil {
			return err
		}
	}
}

// deliver sends lines and notes how far that is.
func (o *outbox) deliver(ctx context.Context, lines []byte, last int64) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := o.sink.Send(ctx, lines); err != nil {
		return err
	}
	o.mu.Lock()
	o.sent = last
	o.mu.Unlock()
	data, err := json.Marshal(position{o.sink.Name(), last})
	if err != nil {
		return fmt.Errorf("encode how far the sink is: %w", err)
	}
	return writeFile(o.k.cfg.Dir, sentFile, data)
}

// close lets the outbox send what it can in a moment.
func (o *outbox) close() error {
	close(o.ending)
	timer := time.NewTimer(lastSend)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
	o.cancel()
	<-o.done
	return nil
}
