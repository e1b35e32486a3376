package limit

// A queue is a heap of groups, the one first whose first call came first.
type queue []*group

// Len implements [heap.Interface].
func (q queue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q queue) Less(i, j int) bool { return q[i].first.seq < q[j].first.seq }

// Swap implements [heap.Interface].
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	c := x.(*group)
	c.index = len(*q)
	*q = append(*q, c)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	old := *q
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return c
}

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
