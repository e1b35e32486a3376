package credential

// Kept counts the answers in memory.
func (c *Client) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}
