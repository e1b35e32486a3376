package review

func reviewJS(n *notes, source string) {}
