"""Access to Kafka: clients, topics, offsets, and the transactional producer."""
