package endpoints

// Labels is the number of labels the index remembers.
func (x *Index) Labels() int {
	n := 0
	for _, ns := range x.postings {
		n += len(ns)
	}
	return n
}
