console.log('Hi there!');
