"""The wire: JSON-RPC lines on stdio. Knows frames, ids and answers; knows nothing of ACP or sessions."""
