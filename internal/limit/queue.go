package limit

// An ordered is a heap, see package heap, whose elements know where in it they are.
type ordered[T element[T]] []T

// An element can be in an ordered.
type element[T any] interface {
	before(other T) bool
	moveTo(index int)
}

// Len implements [heap.Interface].
func (o ordered[T]) Len() int { return len(o) }

// Less implements [heap.Interface].
func (o ordered[T]) Less(i, j int) bool { return o[i].before(o[j]) }

// Swap implements [heap.Interface].
func (o ordered[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].moveTo(i)
	o[j].moveTo(j)
}

// Push implements [heap.Interface].
func (o *ordered[T]) Push(x any) {
	e := x.(T)
	e.moveTo(len(*o))
	*o = append(*o, e)
}

// Pop implements [heap.Interface].
func (o *ordered[T]) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	clear((*o)[last:])
	*o = (*o)[:last]
	return e
}

// before orders groups by the arrival of their first calls.
func (c *group) before(other *group) bool { return c.first.seq < other.first.seq }

func (c *group) moveTo(index int) { c.index = index }

// before orders entries by when they may be forgotten.
func (e *entry) before(other *entry) bool { return e.free < other.free }

func (e *entry) moveTo(index int) { e.index = index }

// A roundRobin is a queue of tenants that grows when it must.
type roundRobin struct {
	list  []*tenant
	first int
	n     int
}

func (r *roundRobin) push(t *tenant) {
	if r.n == len(r.list) {
		grown := make([]*tenant, max(8, 2*r.n))
		for i := range r.n {
			grown[i] = r.list[(r.first+i)%len(r.list)]
		}
		r.list, r.first = grown, 0
	}
	r.list[(r.first+r.n)%len(r.list)] = t
	r.n++
}

// pop returns nil if there is none.
func (r *roundRobin) pop() *tenant {
	if r.n == 0 {
		return nil
	}
	t := r.list[r.first]
	r.list[r.first] = nil
	r.first = (r.first + 1) % len(r.list)
	r.n--
	return t
}
